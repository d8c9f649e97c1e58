"""The grammar of `mlxr://` links: what is one, and that everything else is refused in one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.opening.link import LONGEST, BadLink, ChatLink, ModelLink, is_link, parse_link

CHAT = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("mlxr://model/Qwen/Qwen3-0.6B", ModelLink("Qwen/Qwen3-0.6B")),
        ("MLXR://model/mlx-community/a_b.c/", ModelLink("mlx-community/a_b.c")),
        (f"mlxr://chat/{CHAT}", ChatLink(CHAT)),
    ],
)
def test_the_two_kinds_are_understood(text: str, link: ModelLink | ChatLink) -> None:
    assert is_link(text)
    assert parse_link(text) == link


@pytest.mark.parametrize(
    "text",
    [
        "mlxr:",
        "mlxr://",
        "mlxr:model/a/b",
        "mlxr://model/",
        "mlxr://model/a",
        "mlxr://model/a/b/c",
        "mlxr://model/../b",
        "mlxr://model/a/..",
        "mlxr://model/a/b..c",
        "mlxr://model/./b",
        "mlxr://model/-a/b",
        "mlxr://model/a/b.git",
        "mlxr://model/a/b?revision=main",
        "mlxr://model/a/b#x",
        "mlxr://model/a%2fb/c",
        "mlxr://model//a/b",
        "mlxr://model/a\\b/c",
        "mlxr://model/ä/b",
        "mlxr://model/a/b\n",
        "mlxr://model/a/b\0",
        "mlxr://me@model/a/b",
        "mlxr://model:80/a/b",
        "mlxr://models/a/b",
        "mlxr://run/a/b",
        "mlxr://huggingface.co/a/b",
        "mlxr://chat/",
        f"mlxr://chat/{CHAT}0",
        f"mlxr://chat/{CHAT[:-1]}g",
        f"mlxr://chat/../{CHAT}",
        f"mlxr://model/a/{'b' * LONGEST}",
        "https://huggingface.co/a/b",
        "",
    ],
)
def test_anything_else_is_refused_in_one_short_line(text: str) -> None:
    with pytest.raises(BadLink) as raised:
        parse_link(text)
    words = str(raised.value)
    assert words.isprintable()
    assert words.isascii()
    assert len(words) < 250
    assert "mlxr://model/OWNER/NAME" in words


@given(st.text(max_size=40))
def test_what_gets_through_is_a_plain_name(end: str) -> None:
    try:
        link = parse_link(f"mlxr://model/{end}")
    except BadLink:
        return
    assert isinstance(link, ModelLink)
    owner, name = link.repo.split("/")
    assert not {owner, name} & {"", ".", ".."}
    assert link.repo.isascii()
    assert not set(link.repo) & set("\\%?#@: \"'<>\n\0")
