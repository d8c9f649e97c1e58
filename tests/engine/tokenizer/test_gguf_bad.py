"""GGUF metadata that is wrong: one line that names the file and the field, never a crash, never a hang."""

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.commands import Message
from engine.errors import InvalidRequest, TokenizerError
from engine.tokenizer.gguf import MAX_MATCHED_CHARACTERS, MAX_MATCHED_TOKENS, load_gguf_tokenizer
from tests.engine.tokenizer.conftest import train_pieces
from tests.engine.tokenizer.gguf_metadata import (
    BYTE,
    CONTROL,
    NASTY,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    byte_level_metadata,
    pieces_metadata,
)
from tests.engine.tokenizer.test_gguf_byte_level import original

GGML = "tokenizer.ggml."
Damage = Callable[[dict[str, Any]], None]


@cache
def _llama() -> dict[str, Any]:
    return pieces_metadata(train_pieces())


@cache
def _gpt2() -> dict[str, Any]:
    return byte_level_metadata(original("qwen2"), "qwen2", bos_token_id=3, eos_token_id=3)


def good(kind: str) -> dict[str, Any]:
    """A copy of good metadata, to be damaged."""
    metadata = {"llama": _llama, "gpt2": _gpt2}[kind]()
    return {name: list(value) if isinstance(value, list) else value for name, value in metadata.items()}


def error_of(metadata: dict[str, Any], rows: int = 2000) -> str:
    with pytest.raises(TokenizerError) as caught:
        load_gguf_tokenizer(metadata, where="m.gguf", rows=rows)
    text = str(caught.value)
    assert "\n" not in text
    assert "m.gguf" in text
    assert len(text) <= 400
    return text


def put(name: str, value: object) -> Damage:
    return lambda metadata: metadata.update({GGML + name: value})


def put_item(name: str, place: int, value: object) -> Damage:
    return lambda metadata: metadata[GGML + name].__setitem__(place, value)


def put_scores(metadata: dict[str, Any], score: float) -> None:
    metadata[f"{GGML}scores"] = [score] * len(metadata[f"{GGML}tokens"])


def drop(name: str) -> Damage:
    return lambda metadata: metadata.pop(GGML + name)


def shorten(name: str) -> Damage:
    return lambda metadata: metadata[GGML + name].pop()


NO_BOS = {f"{GGML}bos_token_id": None, f"{GGML}add_bos_token": True}
BOTH: dict[str, tuple[str, Damage]] = {
    "no model": ("model", drop("model")),
    "another model": ("model", put("model", "bert")),
    "a model that is no name": ("model", put("model", 7)),
    "no tokens": ("tokens", drop("tokens")),
    "empty tokens": ("tokens", put("tokens", [])),
    "tokens that are no list": ("tokens", put("tokens", "abc")),
    "a token that is a number": ("tokens", put_item("tokens", 5, 5)),
    "bytes for a token": ("tokens", put_item("tokens", 5, b"a")),
    "a token twice": ("tokens", lambda m: put_item("tokens", 7, m[f"{GGML}tokens"][9])(m)),
    "half a surrogate pair": ("tokens", put_item("tokens", 5, "\ud83d")),
    "our own noncharacters": ("tokens", put_item("tokens", 5, "\ufdd0\ufdd2\ufdd0")),
    "the tag": ("tokens", put_item("tokens", 5, "x\ufdd1\ufdd2\ufdd1")),
    "fewer types": ("token_type", shorten("token_type")),
    "more types": ("token_type", lambda m: m[f"{GGML}token_type"].append(1)),
    "a type that is none": ("token_type", put_item("token_type", 5, 99)),
    "type 0": ("token_type", put_item("token_type", 5, 0)),
    "a type that is text": ("token_type", put_item("token_type", 5, "1")),
    "a type that is true": ("token_type", put_item("token_type", 5, True)),
    "fewer scores": ("scores", put("scores", [0.0])),
    "a score that is no number": ("scores", lambda m: put_scores(m, float("nan"))),
    "a score that no float holds": ("scores", lambda m: put_scores(m, 1e39)),
    "bos beyond the tokens": ("bos_token_id", put("bos_token_id", 2**32 - 1)),
    "eos below 0": ("eos_token_id", put("eos_token_id", -1)),
    "eot that is true": ("eot_token_id", put("eot_token_id", True)),
    "eom that is text": ("eom_token_id", put("eom_token_id", "3")),
    "add_bos that is 1": ("add_bos_token", put("add_bos_token", 1)),
    "add_eos that is text": ("add_eos_token", put("add_eos_token", "true")),
}
LLAMA: dict[str, tuple[str, Damage]] = {
    "two thirds of the bytes": ("tokens", put_item("token_type", 10, NORMAL)),
    "a byte that is none": ("tokens", put_item("tokens", 10, "<0xGG>")),
    "a byte too many": ("tokens", put_item("token_type", 300, BYTE)),
    "nul in a token": ("tokens", put_item("tokens", 300, "a\x00b")),
    "a token of a megabyte": ("tokens", put_item("tokens", 300, "a" * 2**20)),
    "an unknown token beyond": ("unknown_token_id", put("unknown_token_id", 5000)),
    "a space prefix that is text": ("add_space_prefix", put("add_space_prefix", "no")),
    "squeezing that is a number": ("remove_extra_whitespaces", put("remove_extra_whitespaces", 0)),
    "a normalisation": ("precompiled_charsmap", put("precompiled_charsmap", [1, 2, 3])),
}
GPT2: dict[str, tuple[str, Damage]] = {
    "no merges": ("merges", drop("merges")),
    "merges that are no list": ("merges", put("merges", {})),
    "a merge of nothing known": ("merges", put_item("merges", 3, "quux flub")),
    "a merge without a space": ("merges", put_item("merges", 3, "ab")),
    "an empty merge": ("merges", put_item("merges", 3, "")),
    "a merge of blanks": ("merges", put_item("merges", 3, "   ")),
    "a merge that is a pair": ("merges", put_item("merges", 3, ["a", "b"])),
    "a pre-tokenizer that is unknown": ("pre", put("pre", "gpt-7")),
    "a pre-tokenizer of many lines": ("pre", put("pre", "a\nb" * 1000)),
    "byte tokens": ("token_type", put_item("token_type", 5, BYTE)),
    "bos wanted and not there": ("add_bos_token", lambda m: m.update(NO_BOS)),
}
CASES = [
    (f"{kind}: {case}", kind, field, damage)
    for kind, own in (("llama", LLAMA), ("gpt2", GPT2))
    for case, (field, damage) in (BOTH | own).items()
]


@pytest.mark.parametrize(("kind", "field", "damage"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_the_field_that_is_wrong_is_named(kind: str, field: str, damage: Damage) -> None:
    metadata = good(kind)
    load_gguf_tokenizer(metadata, where="m.gguf", rows=2000)
    damage(metadata)
    assert f"{GGML}{field} " in error_of(metadata)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_more_tokens_than_rows(kind: str) -> None:
    size = len(good(kind)[f"{GGML}tokens"])
    assert load_gguf_tokenizer(good(kind), where="m.gguf", rows=size).vocab_size == size
    assert f"has {size} tokens, but the model has {size - 1} embedding rows" in error_of(good(kind), size - 1)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("count", [MAX_MATCHED_TOKENS + 1, 3])
def test_more_to_match_whole_than_a_text_can_be_searched_for(kind: str, count: int) -> None:
    metadata = good(kind)
    length = MAX_MATCHED_CHARACTERS // count + 1 if count == 3 else 1
    more = [chr(0x20000 + index) * length for index in range(count)]
    for name, values in (
        ("tokens", more),
        ("token_type", [USER_DEFINED] * count),
        ("scores", [0.0] * count),
    ):
        if f"{GGML}{name}" in metadata:
            metadata[f"{GGML}{name}"] += values
    assert "token_type" in error_of(metadata, rows=100_000)


def test_no_unknown_token() -> None:
    metadata = good("llama")
    metadata[f"{GGML}token_type"][0] = NORMAL
    del metadata[f"{GGML}unknown_token_id"]
    assert "has no unknown token" in error_of(metadata)
    metadata[f"{GGML}token_type"][0] = CONTROL  # as converters that know no type for it write it
    load_gguf_tokenizer(metadata, where="m.gguf", rows=2000)


def test_two_unknown_tokens_are_none_of_a_persons_text() -> None:
    metadata = good("llama")
    metadata[f"{GGML}token_type"][1] = UNKNOWN
    ours = load_gguf_tokenizer(metadata, where="m.gguf", rows=2000)
    assert ours.decode(ours.encode("<s>fox")) == "<s>fox"


HOSTILE = {
    "syntax": "{% for %}",
    "endless": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "giant": "{{ 'x' * 10**10 }}",
    "sandbox": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "missing": "{{ nothing.at.all }}",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_template(kind: str) -> None:
    metadata = good("gpt2") | {"tokenizer.chat_template": HOSTILE[kind]}
    started = time.monotonic()
    with pytest.raises(TokenizerError) as caught:
        load_gguf_tokenizer(metadata, where="m.gguf", rows=2000).encode_chat([Message("user", "x")])
    assert time.monotonic() - started < 30
    assert "m.gguf: tokenizer.chat_template" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_template_that_is_no_text() -> None:
    assert "tokenizer.chat_template is not a string" in error_of(
        good("gpt2") | {"tokenizer.chat_template": 5}
    )


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64),
    st.floats(width=32),
    st.text(max_size=6),
    st.binary(max_size=3),
    st.lists(st.one_of(st.text(max_size=3), st.integers(-3, 300), st.floats(width=32)), max_size=4),
)


def damage_one(metadata: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(metadata)))
    value = metadata[name]
    if isinstance(value, list) and value and data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(value) - 1))
        other = st.sampled_from(value) if data.draw(st.booleans()) else ODD
        value[place] = data.draw(other)
    else:
        metadata[name] = data.draw(ODD)


def is_one_line(error: Exception) -> bool:
    return "\n" not in str(error) and "m.gguf" in str(error)


def load_or_refuse(metadata: dict[str, Any]) -> bool:
    """Whether bad metadata is refused in one line, or its tokenizer keeps what it promises."""
    try:
        ours = load_gguf_tokenizer(metadata, where="m.gguf", rows=2000)
    except TokenizerError as error:
        return is_one_line(error)
    size = len(metadata[f"{GGML}tokens"])
    texts = [ours.encode(text) for text in NASTY]
    lengths = [len(ours.decode(ids)) for ids in texts]
    try:
        texts.append(ours.encode_chat([Message("user", NASTY[15])]))
    except InvalidRequest:
        pass
    except TokenizerError as error:
        return is_one_line(error)
    return sum(lengths) > 0 and all(0 <= token < size for ids in texts for token in ids)


@settings(max_examples=40)
@given(data=st.data(), kind=st.sampled_from(["llama", "gpt2"]))
def test_any_damage_is_refused_or_harmless(data: st.DataObject, kind: str) -> None:
    metadata = good(kind)
    for _ in range(data.draw(st.integers(1, 3))):
        damage_one(metadata, data)
    assert load_or_refuse(metadata)


@pytest.mark.long
@pytest.mark.timeout(900)
@settings(max_examples=10_000)
@given(data=st.data(), kind=st.sampled_from(["llama", "gpt2"]))
def test_much_damage_is_refused_or_harmless(data: st.DataObject, kind: str) -> None:
    metadata = good(kind)
    for _ in range(data.draw(st.integers(1, 3))):
        damage_one(metadata, data)
    assert load_or_refuse(metadata)
