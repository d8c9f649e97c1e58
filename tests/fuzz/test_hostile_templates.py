"""Chat templates that attack: each is put out in seconds and within a bound of memory, in one clear line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest

from tests.engine.loading.gguf.writer import write_gguf_model
from tests.fuzz.bases import SMALL
from tests.fuzz.hostile_templates import BOMBS, BROKEN
from tests.fuzz.opener import Opener

MEMORY = 512 << 20
"""Bytes that a rendering may take: what it may make, in the widest characters, and a list of that."""


def _in_config(model: Path, source: str) -> str:
    settings = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": source}))
    return "tokenizer_config.json"


def _in_a_file(model: Path, source: str) -> str:
    (model / "chat_template.jinja").write_text(source)
    return "chat_template.jinja"


def _in_gguf(model: Path, source: str) -> str:
    def add(writer: gguf.GGUFWriter) -> None:
        del writer.kv_data[0]["tokenizer.chat_template"]
        writer.add_chat_template(source)

    for file in model.iterdir():
        file.unlink()
    write_gguf_model(model / "model.gguf", metadata=add, **SMALL)
    return "model.gguf"


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_put_out(opener: Opener, model: Path, name: str) -> None:
    file = _in_config(model, BOMBS[name])
    outcome = opener.open(model)
    assert not outcome.complaint(model, file, "template", allowed=MEMORY)
    # What holds itself, or a nest of others, is printed without what it holds.
    assert outcome.kind == ("answered" if "namespace" in name else "refused")


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_template_is_one_line(opener: Opener, model: Path, name: str) -> None:
    outcome = opener.open(model)
    assert outcome.kind == "answered"
    file = _in_a_file(model, BROKEN[name])
    outcome = opener.open(model)
    assert outcome.kind == "refused"
    assert not outcome.complaint(model, file, "template")


@pytest.mark.parametrize("put", [_in_config, _in_a_file, _in_gguf])
@pytest.mark.parametrize("name", ["many wide fields", "loops too deep for Python"])
def test_it_does_not_matter_where_a_template_is_from(
    opener: Opener, model: Path, name: str, put: Callable[[Path, str], str]
) -> None:
    file = put(model, {**BOMBS, **BROKEN}[name])
    outcome = opener.open(model)
    assert outcome.kind == "refused"
    assert not outcome.complaint(model, file, "template")
