"""Cutting Markdown into blocks: nothing is lost, and growing text changes only the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat.blocks import Code, Prose
from app.chat.markdown_blocks import LONGEST_PROSE, split_blocks

ANSWER = """Some prose.

```python
def f():
    return 1

```
Between.

~~~
plain ``` inside
~~~
"""

lines = st.sampled_from(
    [
        "word",
        "",
        "two words",
        "```",
        "```py",
        "~~~",
        "- item",
        "1. item",
        "    indented",
        "| a | b |",
        "# heading",
        "````",
    ]
)


def test_prose_and_code_are_told_apart() -> None:
    assert split_blocks(ANSWER) == [
        Prose("Some prose."),
        Code("def f():\n    return 1\n", "python", closed=True),
        Prose("Between."),
        Code("plain ``` inside", "", closed=True),
    ]


def test_an_open_fence_is_code_that_grows() -> None:
    assert split_blocks("```js\nlet a") == [Code("let a", "js", closed=False)]


def test_a_longer_fence_holds_shorter_ones() -> None:
    assert split_blocks("````\n```\n````") == [Code("```", "", closed=True)]


def test_indented_fences_lose_their_indent_only() -> None:
    assert split_blocks("1. item\n\n   ```py\n   if x:\n       y\n   ```") == [
        Prose("1. item"),
        Code("if x:\n    y", "py", closed=True),
    ]


def test_long_prose_is_cut_between_paragraphs_only() -> None:
    paragraph = "word " * 100
    blocks = split_blocks("\n\n".join([paragraph] * 40))
    assert len(blocks) > 3
    assert all(len(block.text) < LONGEST_PROSE + 2 * len(paragraph) for block in blocks)
    assert "\n\n".join(block.text for block in blocks) == "\n\n".join([paragraph] * 40)


def test_long_lists_are_cut_between_two_items() -> None:
    text = "\n\n".join(f"- item {number} " + "x" * 60 for number in range(100))
    blocks = split_blocks(text)
    assert len(blocks) > 4
    assert all(len(block.text) < LONGEST_PROSE + 100 for block in blocks)
    assert "\n\n".join(block.text for block in blocks) == text


def test_a_table_right_below_words_is_one() -> None:
    rows = "| a | b |\n|---|---|\n| 1 | 2 |\n|---|---|\n| 3 | 4 |"
    assert split_blocks(f"Here it is:\n{rows}") == [Prose(f"Here it is:\n\n{rows}")]
    assert split_blocks(f"- Here:\n  {rows}") == [Prose(f"- Here:\n\n  {rows}")]
    assert split_blocks(f"Here it is:\n\n{rows}") == [Prose(f"Here it is:\n\n{rows}")]


@pytest.mark.parametrize("text", ["a | b\n---", "one | two\n|---|---|---|", "```\na\n| b |\n|---|\n```"])
def test_other_lines_with_bars_stay_as_they_are(text: str) -> None:
    assert split_blocks(f"Words\n{text}")[-1].text in f"Words\n{text}"


@given(st.lists(lines, max_size=30))
def test_every_word_is_in_some_block(written: list[str]) -> None:
    text = "\n".join(written)
    kept = " ".join(block.text for block in split_blocks(text))
    for word in ("word", "item", "indented", "heading"):
        assert kept.count(word) == text.count(word)


@given(st.lists(lines, max_size=30), st.lists(lines, min_size=1, max_size=10))
def test_what_is_added_at_the_end_changes_only_the_last_block(written: list[str], added: list[str]) -> None:
    before = split_blocks("\n".join([*written, ""]))
    after = split_blocks("\n".join([*written, *added]))
    assert after[: max(0, len(before) - 1)] == before[:-1]
