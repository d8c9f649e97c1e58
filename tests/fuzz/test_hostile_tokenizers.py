"""Files of tokenizers that make their package panic, allocate what they say, or grow text without end."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.opener import Opener

Change = Callable[[dict[str, Any]], object]


def _section(name: str, value: object) -> Change:
    return lambda spec: spec.__setitem__(name, value)


def _split(expression: str) -> Change:
    split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return _section("pre_tokenizer", {"type": "Sequence", "pretokenizers": [split, level]})


def _charsmap(table: bytes) -> Change:
    encoded = base64.b64encode(table).decode()
    return _section("normalizer", {"type": "Precompiled", "precompiled_charsmap": encoded})


def _replace(pattern: dict[str, str], content: str) -> dict[str, object]:
    return {"type": "Replace", "pattern": pattern, "content": content}


TEN = _replace({"String": "a"}, "a" * 10)
REFUSED: dict[str, Change] = {
    "a table of 4 GB": _charsmap(b"\xff" * 100),
    "a table cut off": _charsmap((400).to_bytes(4, "little")),
    "a table of nothing": _charsmap(b""),
    "a table that is none": _charsmap((400).to_bytes(4, "little") + bytes(range(256)) * 2),
    "a long prefix": _section("normalizer", {"type": "Prepend", "prepend": "x" * 3_000_000}),
    "tenfold nine times": _section("normalizer", {"type": "Sequence", "normalizers": [TEN] * 9}),
    "long for nothing": _section("normalizer", _replace({"Regex": "x*"}, "y" * 10_000)),
    "tenfold when decoded": _section("decoder", {"type": "Sequence", "decoders": [TEN] * 9}),
    "a prefix longer than tokens": lambda spec: spec["model"].__setitem__(
        "continuing_subword_prefix", "#" * 99
    ),
    "a special token that is missing": _section(
        "post_processor",
        {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "gone", "type_id": 0}}],
            "pair": [],
            "special_tokens": {},
        },
    ),
    "an expression too deep": _split("(" * 50_000 + ")" * 50_000),
    "an expression in itself": _split(r"(?<x>.?\g<x>.?)"),
    "token 2^32 - 1": lambda spec: spec["model"]["vocab"].__setitem__("a new one", 2**32 - 1),
    "an unknown decoder": _section("decoder", {"type": "BPEDecoder", "suffix": "</w>"}),
}
ANSWERED: dict[str, Change] = {
    "an expression that backtracks": _split(r"([a-z ]+[a-z ]+)+\d\d\d\dy"),
    "an expression that repeats": _split("(?:(?:(?:a{1000}){1000}){1000})"),
    "padding to 2^40": _section(
        "padding",
        {
            "strategy": {"Fixed": 1 << 40},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "x",
        },
    ),
    "half of the merges": lambda spec: spec["model"].__setitem__("dropout", 0.5),
}


def _change(model: Path, change: Change) -> str:
    file = model / "tokenizer.json"
    spec = json.loads(file.read_text())
    change(spec)
    file.write_text(json.dumps(spec))
    return file.name


@pytest.mark.parametrize("model", ["sharded"], indirect=True)
@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_tokenizer_is_one_line(opener: Opener, model: Path, name: str) -> None:
    file = _change(model, REFUSED[name])
    outcome = opener.open(model)
    assert outcome.kind == "refused"
    assert not outcome.complaint(model, None if "2^32" in name else file, "token")


@pytest.mark.parametrize("model", ["sharded"], indirect=True)
@pytest.mark.parametrize("name", ANSWERED)
def test_an_odd_tokenizer_does_no_harm(opener: Opener, model: Path, name: str) -> None:
    file = _change(model, ANSWERED[name])
    outcome = opener.open(model)
    assert outcome.kind == "answered"
    assert not outcome.complaint(model, file)


@pytest.mark.parametrize("model", ["sharded"], indirect=True)
def test_a_section_s_name_cannot_be_hidden(opener: Opener, model: Path) -> None:
    file = model / _change(model, _section("normalizer", {"type": "Prepend", "prepend": "x" * 3_000_000}))
    file.write_text(file.read_text().replace('"normalizer"', '"normali\\u007aer"'))
    outcome = opener.open(model)
    assert outcome.kind == "refused"
    assert not outcome.complaint(model, file.name, "escapes")


@pytest.mark.parametrize(
    ("old", "new"),
    [("▁pag".encode(), "▁pa".encode() + b"\x91"), (b"<0x41>", b"<0xQ1>"), (b"<0x41>", b"\xff" * 6)],
)
def test_pieces_that_are_no_text_or_no_bytes_are_one_line(
    opener: Opener, model: Path, old: bytes, new: bytes
) -> None:
    file = model / "tokenizer.model"
    proto = file.read_bytes()
    assert old in proto
    file.write_bytes(proto.replace(old, new, 1))
    outcome = opener.open(model)
    assert outcome.kind == "refused"
    assert not outcome.complaint(model, file.name)
