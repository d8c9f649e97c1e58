"""A chat's next prompt keeps the ids of its history, and brings what the template puts behind, exactly."""

from __future__ import annotations

import json
import shutil
from array import array
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.commands import History, Message
from engine.errors import InvalidRequest
from engine.tokenizer import ChatTemplate, Tokenizer, load_tokenizer
from engine.tokenizer.history import chat_prompt

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
THINKING = CHATML.replace(
    "{{ m.content }}",
    "{% if m.role == 'assistant' %}{{ m.content.split('</think>')[-1].lstrip('\n') }}"
    "{% else %}{{ m.content }}{% endif %}",
)
GEMMA = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>"
    "{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
INST = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token }}[INST] {{ m.content.strip() }} [/INST]"
    "{% elif m.role == 'assistant' %} {{ m.content | trim }} {{ eos_token }}"
    "{% else %}<<SYS>>{{ m.content }}<</SYS>>{% endif %}{% endfor %}"
)
MISTRAL = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('take turns') }}{% endif %}"
    "{% if m.role == 'user' %}[INST] {{ m.content }}[/INST]"
    "{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
PLAIN = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
MARKED_TURNS = ["<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>"]

USER, ANSWER, NEXT = (
    Message("user", "The quick fox"),
    Message("assistant", "a lazy dog"),
    Message("user", "Why?"),
)
CHAT = (USER, ANSWER, NEXT)
Load = Callable[[str, str | None], Tokenizer]


@pytest.fixture(scope="session")
def load(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Loads a tokenizer of each kind, with a chat template of one's own if given."""

    def loaded(kind: str, template: str | None = None) -> Tokenizer:
        folder = tmp_path_factory.mktemp("model")
        if kind == "guide":
            shutil.copytree("resources/guide/model", folder, dirs_exist_ok=True)
        elif kind in ("pieces", "legacy pieces"):
            (folder / "tokenizer.model").write_bytes(request.getfixturevalue("pieces"))
            config = {"bos_token": "<s>", "eos_token": "</s>", "legacy": kind.startswith("legacy")}
            (folder / "tokenizer_config.json").write_text(json.dumps(config))
        else:
            shutil.copytree(request.getfixturevalue(kind), folder, dirs_exist_ok=True)
        if template is not None:
            config = json.loads((folder / "tokenizer_config.json").read_text())
            config["chat_template"] = template
            config["additional_special_tokens"] = MARKED_TURNS
            (folder / "tokenizer_config.json").write_text(json.dumps(config))
            add_markers(folder)
        return load_tokenizer(folder, vocab_size=4000)

    return loaded


def add_markers(folder: Path) -> None:
    """Give the vocabulary in `folder` the control tokens of the templates here."""
    path = folder / "tokenizer_config.json"
    bare = load_tokenizer(folder, vocab_size=4000)
    fresh = [text for text in MARKED_TURNS if len(bare.encode(text, add_bos=False, special=True)) > 1]
    size = max(bare.vocab_size, 480)
    added = {
        str(size + place): {"content": text, "special": True, "normalized": False}
        for place, text in enumerate(fresh)
    }
    path.write_text(json.dumps(json.loads(path.read_text()) | {"added_tokens_decoder": added}))


def rendered_history(tokenizer: Tokenizer, chat: tuple[Message, ...], count: int) -> tuple[int, ...]:
    """Ids of the first `count` messages as a fresh rendering of `chat` has them, end token included."""
    whole = tokenizer.encode_chat(chat)
    before = tokenizer.encode_chat(chat[: count - 1])
    assert whole[: len(before)] == before
    end = next(i for i in range(len(before), len(whole)) if whole[i] in tokenizer.eos_ids)
    return tuple(whole[: end + 1])


KINDS = {
    "chatml": ("qwen", CHATML),
    "thinking": ("qwen", THINKING),
    "llama 3": ("llama3", None),
    "llama 2": ("llama2", INST),
    "tinyllama": ("tinyllama", INST),
    "mistral": ("llama2", MISTRAL),
    "gemma": ("llama2", GEMMA),
    "pieces": ("pieces", INST),
    "legacy pieces": ("legacy pieces", MISTRAL),
    "pieces gemma": ("pieces", GEMMA),
    "unigram": ("unigram", None),
    "guide": ("guide", None),
}


@pytest.fixture(scope="session")
def tokenizers(load: Load) -> dict[str, Tokenizer]:
    return {name: load(*kind) for name, kind in KINDS.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_history_of_a_fresh_rendering_gives_the_fresh_prompt(
    tokenizers: dict[str, Tokenizer], kind: str
) -> None:
    tokenizer = tokenizers[kind]
    chat = (*CHAT, Message("assistant", "over and over"), Message("user", "fox <|im_end|></s> dog"))
    for shown, count in ((chat[:3], 2), (chat, 4), (chat, 2)):
        tokens = rendered_history(tokenizer, shown, count)
        made = chat_prompt(tokenizer, shown, History(tokens, count, "m"), "m")
        assert (list(made.ids), made.kept, made.reason) == (tokenizer.encode_chat(shown), len(tokens), None)
        assert made.packed == array("I", made.ids)


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_was_cut_gets_its_end(tokenizers: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = tokenizers[kind]
    whole = rendered_history(tokenizer, CHAT, 2)
    full = chat_prompt(tokenizer, CHAT, History(whole, 2, "m"), "m")
    cut = chat_prompt(tokenizer, CHAT, History(whole[:-2], 2, "m"), "m")
    assert cut.ids[: len(whole) - 2] == whole[:-2]
    end, behind = cut.ids[len(whole) - 2 :], full.ids[len(whole) :]
    assert end[-len(behind) :] == behind
    added = end[: -len(behind)]
    assert added[-1] == whole[-1]
    assert tokenizer.decode((*whole[:3], *added[:-1])).strip() == tokenizer.decode(whole[:3]).strip()


TEXT = st.text(
    st.one_of(st.sampled_from("ab \n🚀é"), st.characters(exclude_categories=["Cs", "Cn"])), max_size=12
)
CONTENT = st.lists(
    st.one_of(
        TEXT, st.sampled_from(["<|im_end|>", "</s>", "<think>", "</think>", "<end_of_turn>", "[INST]"])
    ),
    max_size=4,
).map("".join)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "unigram"])  # it has no bytes
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(asked=CONTENT, answer=CONTENT, asked_next=CONTENT, data=st.data())
def test_any_ids_are_kept_and_the_rest_is_the_templates_text(
    tokenizers: dict[str, Tokenizer],
    kind: str,
    asked: str,
    answer: str,
    asked_next: str,
    data: st.DataObject,
) -> None:
    tokenizer = tokenizers[kind]
    chat = (Message("user", asked), Message("assistant", answer), Message("user", asked_next))
    opening = tokenizer.encode_chat(chat[:1])
    generated = data.draw(st.lists(st.integers(10, 400), min_size=1, max_size=8))
    tokens = (*opening, *generated)
    made = chat_prompt(tokenizer, chat, History(tokens, 2, "m"), "m")
    assert made.ids[: len(tokens)] == tokens
    assert (made.kept, made.reason) == (len(tokens), None)
    other = (*chat[:1], Message("assistant", "x"), chat[2])
    fresh = tokenizer.encode_chat(other)
    controls = {i for i in fresh if tokenizer.decode([i, i, i]) == ""}
    tail = made.ids[len(tokens) :]

    def marks(ids: list[int] | tuple[int, ...]) -> list[int]:
        return [i for i in ids if i in controls]

    assert marks(tail) == marks(fresh)[len(marks(opening)) :]
    answered = tokenizer.decode((*tokenizer.encode("x", add_bos=False), *tail))
    assert tokenizer.decode(fresh).endswith(answered)


def test_a_template_that_drops_thoughts_loses_nothing(load: Load) -> None:
    tokenizer = load("qwen", THINKING)
    opening = tuple(tokenizer.encode_chat([USER]))
    thought = tuple(tokenizer.encode("<think>hm</think>\n\na dog<|im_end|>", special=True))
    chat = (USER, Message("assistant", "<think>hm</think>\n\na dog"), NEXT)
    made = chat_prompt(tokenizer, chat, History(opening + thought, 2, "m"), "m")
    behind = tokenizer.encode("\n<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n", special=True)
    assert made.ids == (*opening, *thought, *behind)
    assert list(made.ids) != tokenizer.encode_chat(chat)


def test_what_follows_an_answer_is_the_middle_of_a_text(load: Load) -> None:
    for kind in ("qwen", "llama2", "tinyllama", "pieces", "legacy pieces"):
        tokenizer = load(kind, PLAIN)
        opening = tuple(tokenizer.encode_chat([USER]))
        answer = tuple(tokenizer.encode("fox", add_bos=False))
        made = chat_prompt(tokenizer, CHAT, History(opening + answer, 2, "m"), "m")
        text = tokenizer.decode(opening) + tokenizer.decode(answer).strip()
        decoded = tokenizer.decode(made.ids)
        assert decoded.replace("assistant: fox", "assistant:fox") == text + "\nuser: Why?\nassistant:"


def test_another_model(load: Load) -> None:
    tokenizer = load("qwen", CHATML)
    history = History(rendered_history(tokenizer, CHAT, 2), 2, "old")
    made = chat_prompt(tokenizer, CHAT, history, "new")
    assert (list(made.ids), made.kept, made.reason) == (tokenizer.encode_chat(CHAT), 0, "other model")


ASKED_LAST = (
    "{% if messages[-1].role != 'user' %}{{ raise_exception('ask') }}{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}{% endfor %}"
)


@pytest.mark.parametrize("template", [CHATML, THINKING, GEMMA, ASKED_LAST])
def test_of_a_chat_s_next_message_another_model_has_read_nothing(load: Load, template: str) -> None:
    """But where a template renders no chat that ends with an answer: then nobody can tell where that ends."""
    tokenizer = load("qwen", template)
    made = chat_prompt(tokenizer, CHAT, History((5, 6), 2, "mine"), "yours")
    read = tokenizer.decode(made.ids[: made.affected])
    assert read.startswith(tokenizer.decode(tokenizer.encode_chat(CHAT))[: len(read)])
    assert ANSWER.content in read
    assert (NEXT.content in read) is (template == ASKED_LAST)


SYSTEM = Message("system", "Be brief.")


@pytest.mark.parametrize(
    ("before", "after"),
    [((SYSTEM,), (Message("system", "Be long."),)), ((), (SYSTEM,)), ((SYSTEM,), ())],
    ids=["changed", "added", "removed"],
)
def test_another_system_prompt(load: Load, before: tuple[Message, ...], after: tuple[Message, ...]) -> None:
    tokenizer = load("qwen", CHATML)
    tokens = rendered_history(tokenizer, before + CHAT, len(before) + 2)
    chat = after + CHAT
    made = chat_prompt(tokenizer, chat, History(tokens, len(after) + 2, "m"), "m")
    assert list(made.ids) == tokenizer.encode_chat(chat)
    assert made.reason == "system prompt changed"
    assert made.ids[: made.kept] == tokens[: made.kept]
    assert made.ids[made.kept] != tokens[made.kept]


KIND = "be brief and kind to all the readers of pages"
SYSTEM_CHANGES = {
    "shorter": (KIND, "be brief"),
    "longer": ("be brief", KIND),
    "another": (KIND, "say more"),
    "its middle": (KIND, "readers"),
    "its end": (KIND, "pages"),
    "emptied": (KIND, ""),
    "filled": ("", KIND),
    "removed": (KIND, None),
    "added": (None, KIND),
    "what the user says": (KIND, USER.content),
}
TELLING = [kind for kind in KINDS if kind != "unigram"]  # whose template tells nobody's role
WITH_SYSTEM = [kind for kind in TELLING if kind not in ("mistral", "legacy pieces")]  # these refuse one


def chat_with(system: str | None, *messages: Message) -> tuple[Message, ...]:
    return (*([] if system is None else [Message("system", system)]), *messages)


@pytest.mark.parametrize("kind", WITH_SYSTEM)
@pytest.mark.parametrize("change", SYSTEM_CHANGES)
def test_a_system_prompt_is_said_to_have_changed_whatever_it_has_in_common(
    tokenizers: dict[str, Tokenizer], kind: str, change: str
) -> None:
    tokenizer, (before, after) = tokenizers[kind], SYSTEM_CHANGES[change]
    old, new = chat_with(before, *CHAT), chat_with(after, *CHAT)
    tokens = rendered_history(tokenizer, old, len(old) - 1)
    made = chat_prompt(tokenizer, new, History(tokens, len(new) - 1, "m"), "m")
    assert (list(made.ids), made.reason) == (tokenizer.encode_chat(new), "system prompt changed")


@pytest.mark.parametrize("kind", WITH_SYSTEM)
@pytest.mark.parametrize("after", ["be brief", "say more", KIND + ", and long", ""])
def test_of_a_system_prompt_and_a_message_that_changed_the_first_is_said(
    tokenizers: dict[str, Tokenizer], kind: str, after: str
) -> None:
    tokenizer = tokenizers[kind]
    tokens = rendered_history(tokenizer, chat_with(KIND, *CHAT), 3)
    new = chat_with(after, Message("user", "A quick dog"), *CHAT[1:])
    assert chat_prompt(tokenizer, new, History(tokens, 3, "m"), "m").reason == "system prompt changed"


@pytest.mark.parametrize("kind", TELLING)
@pytest.mark.parametrize("after", ["The quick", "The quick fox jumps", "A lazy dog", "fox", "a lazy dog", ""])
@pytest.mark.parametrize("system", [None, KIND, "The quick fox"])
def test_an_edited_first_message_is_said_to_be(
    tokenizers: dict[str, Tokenizer], kind: str, after: str, system: str | None
) -> None:
    tokenizer = tokenizers[kind]
    if system is not None and kind not in WITH_SYSTEM:
        pytest.skip("its template refuses a system prompt")
    old = chat_with(system, *CHAT)
    new = chat_with(system, Message("user", after), *CHAT[1:])
    tokens = rendered_history(tokenizer, old, len(old) - 1)
    made = chat_prompt(tokenizer, new, History(tokens, len(new) - 1, "m"), "m")
    assert (list(made.ids), made.reason) == (tokenizer.encode_chat(new), "edited")


def test_of_a_default_system_prompt_and_ones_own_each_may_follow_the_other(load: Load) -> None:
    default = "{% if messages[0].role != 'system' %}<|im_start|>system\nbe brief<|im_end|>\n{% endif %}"
    tokenizer = load("qwen", default + CHATML)
    for before, after in ((None, KIND), (KIND, None), ("be", None), (None, "be")):
        old, new = chat_with(before, *CHAT), chat_with(after, *CHAT)
        tokens = rendered_history(tokenizer, old, len(old) - 1)
        made = chat_prompt(tokenizer, new, History(tokens, len(new) - 1, "m"), "m")
        assert made.reason == "system prompt changed"


@pytest.mark.parametrize("place", ["behind the system prompt", "behind the question"])
@pytest.mark.parametrize("system", [(), (SYSTEM,)], ids=["without", "with"])
def test_a_date_that_a_template_puts_between_messages(
    load: Load, place: str, system: tuple[Message, ...]
) -> None:
    role = "system" if "system" in place else "user"
    day, tokenizer = [1], load("qwen", CHATML)
    dated = CHATML.replace(
        "<|im_end|>\n", f"<|im_end|>\n{{% if m.role == '{role}' %}}{{{{ strftime_now('%d') }}}}{{% endif %}}"
    )
    tokenizer.chat_template = ChatTemplate(dated, {}, now=lambda: datetime(2026, 1, day[0]))
    chat = system + CHAT
    history = History(rendered_history(tokenizer, chat, len(system) + 2), len(system) + 2, "m")
    day[0] = 29
    made = chat_prompt(tokenizer, chat, history, "m")
    is_dated = bool(system) or role == "user"
    assert made.reason == ("template changed" if is_dated else None)


@pytest.mark.parametrize("system", [(), (SYSTEM,)], ids=["without", "with"])
def test_a_template_that_says_another_date(load: Load, system: tuple[Message, ...]) -> None:
    tokenizer = load("qwen", CHATML)
    day = [1]
    source = "<|im_start|>{{ strftime_now('%d') }}<|im_end|>" + CHATML
    tokenizer.chat_template = ChatTemplate(source, {}, now=lambda: datetime(2026, 1, day[0]))
    chat = system + CHAT
    history = History(rendered_history(tokenizer, chat, len(system) + 2), len(system) + 2, "m")
    assert chat_prompt(tokenizer, chat, history, "m").reason is None
    day[0] = 29
    made = chat_prompt(tokenizer, chat, history, "m")
    assert (list(made.ids), made.reason) == (tokenizer.encode_chat(chat), "template changed")


@pytest.mark.parametrize("kind", ["qwen", "llama2", "pieces", "guide"])
@pytest.mark.parametrize("template", [CHATML, GEMMA, MISTRAL])
def test_a_template_that_puts_a_blank_before_messages(load: Load, kind: str, template: str) -> None:
    tokens = rendered_history(load(kind, template), CHAT, 2)
    changed = load(kind, template.replace("{{ m.content", "{{ ' ' + m.content").replace(" | trim", ""))
    made = chat_prompt(changed, CHAT, History(tokens, 2, "m"), "m")
    assert (list(made.ids), made.reason) == (changed.encode_chat(CHAT), "template changed")


@pytest.mark.parametrize("change", ["{{ m.content | length }}", "{{ m.content }}", "{{ m.content[:1] }}"])
def test_a_template_that_looks_at_the_answer_is_rendered_afresh(load: Load, change: str) -> None:
    tokenizer = load("qwen", CHATML.replace("<|im_end|>", change + "<|im_end|>"))
    opening = tokenizer.encode_chat([USER])
    history = History((*opening, 40, 41, 42), 2, "m")
    made = chat_prompt(tokenizer, CHAT, history, "m")
    assert list(made.ids) == tokenizer.encode_chat(CHAT)
    assert made.reason == "template changed"
    assert made.kept >= len(opening)


@pytest.mark.parametrize(
    ("tokens", "count", "words"),
    [((1,), 0, "0 messages"), ((1,), 4, "4 messages"), ((1,), 1, "no answer"), ((), 2, "no tokens")],
)
def test_a_history_that_cannot_be(load: Load, tokens: tuple[int, ...], count: int, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        chat_prompt(load("qwen", CHATML), CHAT, History(tokens, count, "m"), "m")


def test_without_a_history_and_where_the_template_refuses(load: Load) -> None:
    tokenizer = load("llama2", MISTRAL)
    fresh = chat_prompt(tokenizer, CHAT, None, "m")
    assert (list(fresh.ids), fresh.kept, fresh.reason) == (tokenizer.encode_chat(CHAT), 0, None)
    tokens = rendered_history(tokenizer, CHAT, 2)
    with pytest.raises(InvalidRequest, match="take turns"):
        chat_prompt(tokenizer, (*CHAT, NEXT), History(tokens, 2, "m"), "m")
