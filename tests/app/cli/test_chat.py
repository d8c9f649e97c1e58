"""`mlxr chat` from outside: in a pipe exactly the answer, in a terminal a chat that Ctrl-C cannot break."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.chat import HELP, is_command
from tests.app.cli.conftest import NO_END, Run, StartTerminal
from tests.fakes.random_model import write_random_model

GREEDY = ("--temperature", "0", "--max-tokens", "12", *NO_END)


def answer_of(mlxr: Run, model: Path, question: str) -> str:
    """What the model greedily says to `question`, by way of `mlxr generate`."""
    done = mlxr("generate", "--model", model, "--prompt", question, "--json", "--max-tokens", 12, *NO_END)
    text: str = json.loads(done.stdout)["text"]
    return text


@pytest.mark.parametrize(
    ("argument", "piped", "question"),
    [
        ((), "a page\n", "a page"),
        (("a page",), "", "a page"),
        (("a page",), "holds\ntokens\n", "a page\n\nholds\ntokens"),
    ],
    ids=["pipe", "argument", "both"],
)
def test_one_question_gets_exactly_its_answer(
    mlxr: Run, random_model: Path, argument: tuple[str, ...], piped: str, question: str
) -> None:
    done = mlxr("chat", "--model", random_model, *GREEDY, *argument, stdin=piped)
    assert done.returncode == 0
    assert done.stdout == answer_of(mlxr, random_model, question)
    assert done.stderr == ""


def test_the_guide_answers_where_nothing_was_ever_opened(mlxr: Run) -> None:
    question = "What is a page?"
    done = mlxr("chat", stdin=question)
    assert done.returncode == 0
    assert "tokens" in done.stdout
    greedy = mlxr("generate", "--prompt", question, "--temperature", 0)
    assert done.stdout == greedy.stdout


@pytest.mark.parametrize(("given", "piped"), [((), ""), (("",), ""), (("   ",), ""), ((), " \n\n")])
def test_an_empty_prompt_is_refused(mlxr: Run, given: tuple[str, ...], piped: str) -> None:
    done = mlxr("chat", *given, stdin=piped)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: there is nothing to answer: the prompt is empty\n"


def test_a_prompt_without_quotes_is_refused(mlxr_here: Run) -> None:
    done = mlxr_here("chat", "hi", "there")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == 'error: the prompt came in 2 pieces; put it in quotes: mlxr chat "…"\n'


@pytest.mark.parametrize("line", ["/nonsense", "/system be short", "/new chat", "/?", "/"])
def test_what_begins_like_a_command_is_one(line: str) -> None:
    assert is_command(line)


@pytest.mark.parametrize("line", ["/etc/hosts is what?", "//a comment", " /system is a word", "1/2", "a /b"])
def test_paths_and_what_a_blank_begins_are_for_the_model(line: str) -> None:
    assert not is_command(line)


def test_the_model_is_remembered(mlxr: Run, random_model: Path) -> None:
    asked = ("chat", *GREEDY, "a page")
    named = mlxr(*asked[:1], "--model", random_model, *asked[1:])
    assert mlxr(*asked).stdout == named.stdout != ""


def test_the_model_may_be_named_before_the_command(mlxr: Run, random_model: Path) -> None:
    before = mlxr("--model", random_model, "chat", *GREEDY, "a page")
    after = mlxr("chat", "--model", random_model, *GREEDY, "a page")
    assert before.stdout == after.stdout != ""


def test_a_model_without_template_cannot_chat(mlxr: Run, tmp_path: Path) -> None:
    model = write_random_model(tmp_path / "base-model")
    (model / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    done = mlxr("chat", "--model", model, "hello")
    assert done.returncode == 1
    assert done.stderr.startswith("error: base-model has no chat template")
    assert len(done.stderr.splitlines()) == 1


def test_a_template_that_raises_is_one_line(mlxr: Run, tmp_path: Path) -> None:
    model = write_random_model(tmp_path / "model")
    settings = json.loads((model / "tokenizer_config.json").read_text())
    settings["chat_template"] = "{{ raise_exception('only\\nhaiku\\u001b[31m') }}"
    (model / "tokenizer_config.json").write_text(json.dumps(settings))
    done = mlxr("chat", "--model", model, "hello")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "haiku" in done.stderr
    assert "\x1b" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("most", "setting", "says"),
    [
        (("--max-tokens", "12"), "", "cut at --max-tokens"),
        ((), "context=80", "cut: the context that is set for this model is full"),
        ((), "", "cut: the context is full"),
    ],
)
def test_an_answer_that_is_cut_says_by_what(
    most: tuple[str, ...], setting: str, says: str, terminal: StartTerminal, mlxr_here: Run, tmp_path: Path
) -> None:
    folder = write_random_model(tmp_path / "mine" / "short", max_position_embeddings=120)
    assert mlxr_here("import", folder).returncode == 0
    if setting:
        assert mlxr_here("models", "--set", "short", setting).returncode == 0
    chat = terminal("chat", "--model", folder, *NO_END, *most)
    chat.wait_for("> ")
    chat.type("a page\n")
    chat.wait_for(says)
    chat.wait_for("> ")
    chat.type("/quit\n")
    assert chat.end() == 0


def test_the_help_of_a_conversation_is_shown_as_it_is_written(
    terminal: StartTerminal, random_model: Path
) -> None:
    chat = terminal("chat", "--model", random_model)
    chat.wait_for("> ")
    chat.type("/help\n")
    shown = chat.wait_for("> ").replace("\r", "")
    assert "\n".join(HELP) in shown
    chat.type("/quit\n")
    assert chat.end() == 0


def test_ctrl_c_stops_the_answer_and_the_chat_goes_on(terminal: StartTerminal, random_model: Path) -> None:
    chat = terminal("chat", "--model", random_model, "--seed", "1", *NO_END)
    chat.wait_for("> ")
    chat.type("a page\n")
    chat.wait_for("reading the prompt")
    chat.wait_for("\x1b[K")  # the answer takes the place of the progress line
    chat.type("\x03")
    assert " token" in chat.wait_for("stopped")
    chat.wait_for("> ")
    chat.type("/stats\n")
    assert "pages" in chat.wait_for("> ")
    chat.type("/new\n/nonsense\n/system be short\n")
    chat.wait_for("a new chat")
    chat.wait_for("there is no /nonsense")
    chat.wait_for("there is no /system be short")
    chat.type("/quit\n")
    assert chat.end() == 0
    assert "Traceback" not in chat.screen


@pytest.mark.parametrize("key", ["\x03", "\x04"], ids=["Ctrl-C", "Ctrl-D"])
def test_a_key_at_the_prompt_leaves(terminal: StartTerminal, random_model: Path, key: str) -> None:
    chat = terminal("chat", "--model", random_model)
    chat.wait_for("> ")
    assert chat.leave_with(key) == 0
    assert "Traceback" not in chat.screen


def test_ctrl_c_while_loading_leaves_at_once(terminal: StartTerminal, tmp_path: Path) -> None:
    model = write_random_model(tmp_path / "big", hidden_size=512, intermediate_size=2048, num_hidden_layers=8)
    chat = terminal("chat", "--model", model)
    chat.wait_for("loading the model")
    chat.type("\x03")
    assert chat.end() in {0, 130}  # 0: it was loaded by then, and the key met the prompt
    assert "Traceback" not in chat.screen


def test_a_failed_question_keeps_the_chat(terminal: StartTerminal, tmp_path: Path) -> None:
    model = write_random_model(tmp_path / "narrow", max_position_embeddings=64)
    chat = terminal("chat", "--model", model, "--max-tokens", "3", *NO_END)
    chat.wait_for("> ")
    chat.type("a page holds sixteen tokens " * 20 + "\n")
    chat.wait_for("error: ")
    chat.wait_for("> ")
    chat.type("a\n")
    chat.wait_for("3 tokens")
    chat.wait_for("> ")
    chat.type("\x04")
    assert chat.end() == 0


def test_a_dumb_terminal_gets_no_escape_sequences(terminal: StartTerminal, random_model: Path) -> None:
    chat = terminal("chat", "--model", random_model, *GREEDY, env={"TERM": "dumb"})
    chat.wait_for("> ")
    chat.type("a page\n")
    chat.wait_for("12 tokens")
    chat.wait_for("> ")
    chat.type("\x04")
    assert chat.end() == 0
    assert "\x1b" not in chat.screen


def test_no_color_is_honoured(terminal: StartTerminal, random_model: Path) -> None:
    chat = terminal("chat", "--model", random_model, *GREEDY, "a page", env={"NO_COLOR": "1"})
    assert chat.end() == 0
    assert "\x1b[2m" not in chat.screen
    assert "12 tokens" in chat.screen
