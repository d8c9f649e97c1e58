"""The file of a replay: what each field becomes, and one line, with its number, for every mistake."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.cli.replay_fields import SAMPLING
from app.cli.replay_file import Ask, Step, parse_steps
from app.errors import AppError
from engine import Forget, Generate, Message, Pin, SamplingParams


def steps(*lines: dict[str, Any] | str) -> tuple[Step, ...]:
    return parse_steps("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines), "file")


def ask(line: dict[str, Any]) -> Ask:
    action = steps({"id": "before", "prompt": "x"}, line)[-1].action
    assert isinstance(action, Ask)
    return action


def mistake(text: str) -> str:
    with pytest.raises(AppError) as raised:
        parse_steps(text, "file")
    return str(raised.value)


def test_every_field_of_a_request_arrives() -> None:
    line: dict[str, Any] = {
        "id": "all",
        "at": 1.5,
        "messages": [{"role": "system", "content": "short"}, {"role": "user", "content": "hi"}],
        "max_tokens": 9,
        "temperature": 0.5,
        "top_k": 4,
        "top_p": 0.9,
        "min_p": 0.1,
        "seed": 0,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "logit_bias": {"7": -1.5},
        "stop": ["a", "b"],
        "n": 3,
        "logprobs": 2,
        "ignore_eos": True,
        "priority": "window",
        "chat": "one",
        "predict": True,
        "cancel_after_tokens": 0,
        "expect": "cancelled",
    }
    (step,) = steps(line)
    sampling = SamplingParams(0.5, 4, 0.9, 0.1, 1.1, 0.2, 0.3, ((7, -1.5),), 0)
    request = Generate(
        "all",
        messages=(Message("system", "short"), Message("user", "hi")),
        sampling=sampling,
        max_tokens=9,
        stop=("a", "b"),
        logprobs=2,
        ignore_eos=True,
        chat="one",
        lane="window",
        n=3,
    )
    action = Ask(request, cancel_after=0, predicts=True, expected="cancelled")
    assert step == Step("all", 1, action, at=1.5)


def test_what_is_left_out_is_the_engines_default() -> None:
    assert steps({"prompt": "x"}) == (Step("1", 1, Ask(Generate("1", prompt="x"))),)


def test_a_line_may_go_on_from_another_wherever_it_stands() -> None:
    later, first = steps(
        {"id": "later", "after": "first", "continue": True, "tokens": []}, {"id": "first", "tokens": [4]}
    )
    assert later == Step("later", 1, Ask(Generate("later", tokens=()), continues=True), after="first")
    assert first.action == Ask(Generate("first", tokens=(4,)))


def test_chats_are_pinned_let_go_and_forgotten() -> None:
    lines = ({"pin": "c"}, {"unpin": "c", "at": 2}, {"id": "end", "forget": "c", "after": "1"})
    assert steps(*lines) == (
        Step("1", 1, Pin("c", True)),
        Step("2", 2, Pin("c", False), at=2),
        Step("end", 3, Forget("c"), after="1"),
    )


def test_one_stop_text_needs_no_list() -> None:
    assert ask({"prompt": "x", "stop": "end"}).request.stop == ("end",)


def test_blank_lines_and_comments_count_as_lines_and_say_nothing() -> None:
    text = '# why\n\n  \t\n{"prompt": "x"}\r\n  # indented\n{"prompt": "y"}'
    assert [(step.id, step.line) for step in parse_steps(text, "file")] == [("4", 4), ("6", 6)]


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("what else ends a line: \x85\u2028\u2029\x1c")
def test_prompts_keep_every_character(text: str) -> None:
    for ascii_only in (True, False):
        (step,) = steps(json.dumps({"prompt": text}, ensure_ascii=ascii_only))
        assert isinstance(step.action, Ask)
        assert step.action.request.prompt == text


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not JSON"),
        ('{"prompt": "x"} {}', "not JSON (Extra data, column 17)"),
        ("[1]", "one JSON object"),
        ('"x"', "one JSON object"),
        ("[" * 100_000, "nested too deep"),
        (f'{{"seed": {"9" * 5000}}}', "a number too long"),
        (f'{{"prompt": "x", "at": {"9" * 400}}}', '"at" must be seconds from the start'),
        ('{"prompt": "x", "at": 1e308}', '"at" must be seconds from the start, 0 to 604,800 (a week)'),
        (f'{{"prompt": "x", "temperature": -{"9" * 400}}}', '"temperature" must be a number'),
        (f'{{"prompt": "x", "logit_bias": {{"7": {"9" * 400}}}}}', '"logit_bias" must be biases by token id'),
        ('{"prompt": "x", "prompt": "y"}', '"prompt" is given twice'),
        ('{"prompt": "x", "temperature": NaN}', "NaN is no number"),
        ('{"prompt": "x", "temperature": 1e999}', '"temperature" must be a number'),
        ('{"promt": "x"}', 'no field "promt"; write "prompt"'),
        ('{"zzzzzz": 1}', 'no field "zzzzzz"; the fields are id, '),
        ("{}", "there is no prompt"),
        ('{"max_tokens": 3}', "there is no prompt"),
        ('{"prompt": "x", "tokens": [1]}', '"tokens" and "prompt" are given'),
        ('{"prompt": null}', '"prompt" must be text'),
        ('{"prompt": "\\ud800"}', '"prompt" must be text'),
        ('{"id": 7, "prompt": "x"}', '"id" must be a name'),
        ('{"id": " ", "prompt": "x"}', '"id" must be a name'),
        ('{"id": "a\\u001bb", "prompt": "x"}', '"id" must be a name'),
        ('{"tokens": []}', '"tokens" is empty'),
        ('{"tokens": [1, -1]}', '"tokens" must be'),
        ('{"tokens": [true]}', '"tokens" must be'),
        ('{"tokens": "1,2"}', '"tokens" must be'),
        ('{"messages": []}', '"messages" must be'),
        ('{"messages": [{"role": "user"}]}', '"messages" must be'),
        ('{"messages": [{"role": "robot", "content": "x"}]}', '"messages" must be'),
        ('{"messages": [{"role": [], "content": "x"}]}', '"messages" must be'),
        ('{"messages": [{"role": "user", "content": "x", "name": "y"}]}', '"messages" must be'),
        ('{"prompt": "x", "max_tokens": 0}', '"max_tokens" must be'),
        ('{"prompt": "x", "max_tokens": 2.5}', '"max_tokens" must be'),
        ('{"prompt": "x", "max_tokens": true}', '"max_tokens" must be'),
        ('{"prompt": "x", "n": 0}', '"n" must be'),
        ('{"prompt": "x", "n": 33}', '"n" must be a whole number from 1 to 32'),
        ('{"prompt": "x", "temperature": "hot"}', '"temperature" must be'),
        ('{"prompt": "x", "temperature": -1}', "temperature is -1; it must be 0 or more"),
        ('{"prompt": "x", "top_p": 1.5}', "top_p is 1.5"),
        ('{"prompt": "x", "logit_bias": {"x": 1}}', '"logit_bias" must be'),
        ('{"prompt": "x", "logit_bias": [[1, 2]]}', '"logit_bias" must be'),
        ('{"prompt": "x", "stop": ""}', '"stop" must be'),
        ('{"prompt": "x", "stop": ["a", ""]}', '"stop" must be'),
        ('{"prompt": "x", "stop": [1]}', '"stop" must be'),
        ('{"prompt": "x", "priority": "first"}', '"priority" must be one of "window" and "api"'),
        ('{"prompt": "x", "expect": "error"}', '"expect" must be one of stop, length, cancelled, failed'),
        ('{"prompt": "x", "raw": 1}', '"raw" must be true or false'),
        ('{"tokens": [1], "raw": true}', '"raw" is for a "prompt"'),
        ('{"prompt": "x", "at": -1}', '"at" must be seconds'),
        ('{"prompt": "x", "at": 1, "after": "before"}', '"at" and "after" are both given'),
        ('{"prompt": "x", "continue": true}', '"continue" needs "after"'),
        ('{"prompt": "x", "raw": true, "continue": true, "after": "before"}', "raw prompt"),
        ('{"tokens": [1], "continue": true, "after": "pinned"}', "line 3 is none"),
        ('{"prompt": "x", "continue": true, "after": "before"}', "line 2 has tokens or a raw prompt"),
        ('{"prompt": "x", "after": "nobody"}', '"after" names "nobody", and no line has that id'),
        ('{"id": "me", "prompt": "x", "after": "me"}', "in a circle (me → me)"),
        ('{"id": "before", "prompt": "x"}', 'the id "before" is that of line 2 too'),
        ('{"pin": "c", "prompt": "x"}', '"pin" stands on a line of its own; take "prompt" out'),
        ('{"pin": "c", "unpin": "c"}', 'take "unpin" out'),
        ('{"forget": ""}', '"forget" must be a chat\'s name'),
    ],
)
def test_a_mistake_names_the_file_and_the_line(line: str, says: str) -> None:
    good = '# comment\n{"id": "before", "tokens": [1]}\n{"id": "pinned", "pin": "c"}\n'
    found = mistake(good + line + '\n{"prompt": "y"}')
    assert found.startswith("file:4: ")
    assert says in found
    assert "\n" not in found


def test_a_circle_is_shown_without_what_leads_to_it() -> None:
    lines = [{"id": a, "after": b, "prompt": "x"} for a, b in ("in", "ab", "bc", "ca")]
    lines[0]["id"], lines[0]["after"] = "in", "a"
    assert "file:2: " in (found := mistake("\n".join(map(json.dumps, lines))))
    assert "(a → b → c → a)" in found


def test_a_long_chain_is_read_quickly() -> None:
    lines = [{"id": "0", "prompt": "x"}]
    lines += [{"id": str(i), "after": str(i - 1), "prompt": "x"} for i in range(60_000, 0, -1)]
    assert len(steps(*lines)) == 60_001


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n"])
def test_a_file_without_requests_says_so(text: str) -> None:
    assert mistake(text) == "file has no requests; write one JSON object a line"


def test_the_sampling_fields_are_those_of_the_engine() -> None:
    assert sorted(SAMPLING) == sorted(SamplingParams.__slots__)
