"""Cards are cut into blocks that are each quick to be laid out, and lose no words."""

from __future__ import annotations

import re

from app.chat.blocks import Code, Prose, Rows
from app.chat.markdown_tables import MOST_CELLS
from app.models.card_blocks import GOES_ON, LONGEST, MOST_CARD, NOTHING, card_blocks


def table(rows: int) -> str:
    body = [f"| **row {row}** | [{row * row}](https://example.org) | a\\|b |" for row in range(rows)]
    return "\n".join(["| name | number | odd |", "|:---|---:|---|", *body])


def test_a_small_table_stays_one_and_a_large_one_is_cut() -> None:
    small = table(MOST_CELLS // 3 - 1)
    assert card_blocks(f"Before.\n\n{small}\n\nAfter.") == [
        Prose("Before."),
        Prose(small),
        Prose("After."),
    ]
    before, *parts, after = card_blocks(f"Before.\n\n{table(500)}\n\nAfter.")
    assert (before, after) == (Prose("Before."), Prose("After."))
    assert [part for part in parts if not isinstance(part, Rows)] == []
    rows = [line for part in parts for line in part.text.split("\n")[2:]]
    assert rows == table(500).split("\n")[2:]


def test_a_list_goes_on_with_its_numbers_when_it_is_cut() -> None:
    blocks = card_blocks("\n".join(f"1. item {'word ' * 30}" for _ in range(100)))
    numbers = [block.number for block in blocks if isinstance(block, Prose)]
    items = [block.text.count("item") for block in blocks]
    assert numbers[1] == items[0] + 1
    assert numbers[-1] == 100 - items[-1] + 1


def test_of_endless_code_it_is_said_how_much_more_there_is() -> None:
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
