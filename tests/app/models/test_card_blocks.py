"""Cards are cut into blocks that are each quick to be laid out, and lose no words."""

from __future__ import annotations

import re

from app.chat.markdown_blocks import Code, Prose
from app.models.card_blocks import GOES_ON, LONGEST, MOST_CARD, MOST_CELLS, NOTHING, card_blocks


def table(rows: int) -> str:
    body = [f"| **row {row}** | [{row * row}](https://example.org) | a\\|b |" for row in range(rows)]
    return "\n".join(["| name | number | odd |", "|:---|---:|---|", *body])


def test_a_small_table_stays_one_and_a_large_one_becomes_aligned_text() -> None:
    small = table(MOST_CELLS // 3 - 1)
    assert card_blocks(f"Before.\n\n{small}\n\nAfter.") == [
        Prose("Before."),
        Prose(small),
        Prose("After."),
    ]
    before, large, after = card_blocks(f"Before.\n\n{table(30)}\nAfter.")
    assert (before, after) == (Prose("Before."), Prose("After."))
    assert isinstance(large, Code)
    lines = large.text.split("\n")
    assert lines[0] == "name    number  odd"
    assert lines[1] == "row 0   0       a|b"
    assert lines[30] == "row 29  841     a|b"


def test_of_an_endless_table_it_is_said_how_much_more_there_is() -> None:
    (block,) = card_blocks(table(500))
    assert isinstance(block, Code)
    lines = block.text.split("\n")
    assert (len(lines), lines[-1]) == (201, "… 301 more")
    (block,) = card_blocks("```\n" + "word\n" * 1000 + "```")
    assert isinstance(block, Code)
    assert block.text.endswith("word\n… 800 more")


def test_no_block_is_long_and_no_word_is_lost() -> None:
    card = "# One\n\n" + "A wall of words. " * 400 + "\n\n## Two\n\n" + "short\n\n" * 500 + "x" * 3000
    blocks = card_blocks(card)
    assert all(isinstance(block, Prose) and len(block.text) <= LONGEST for block in blocks)
    assert re.sub(r"\s", "", "".join(block.text for block in blocks)) == re.sub(r"\s", "", card)


def test_code_and_lines_with_bars_stay_as_they_are() -> None:
    code = "```\n| a |\n|---|\n" + "| b |\n" * 100 + "```"
    (block,) = card_blocks(code)
    assert isinstance(block, Code)
    assert block.text.startswith("| a |\n|---|")
    assert card_blocks("this | that\nand more") == [Prose("this | that\nand more")]


def test_an_empty_and_an_endless_card_are_said() -> None:
    assert card_blocks("") == [Prose(NOTHING)]
    assert card_blocks("word " * MOST_CARD)[-1] == Prose(GOES_ON)
