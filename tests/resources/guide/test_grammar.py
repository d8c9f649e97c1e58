"""The grammar draws every wording that is written, and says where a line cannot be read."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from resources.guide.grammar import Grammar

MACROS = "thing: cat | big dog\nframe do: how to * | *\n"


def drawn(folder: Path, text: str, times: int = 200) -> set[str]:
    (folder / "macros.txt").write_text(MACROS, "utf-8")
    (folder / "some.txt").write_text(text, "utf-8")
    grammar = Grammar(folder)
    random = Random(1)
    return {grammar.draw("topic", random) for _ in range(times)}


@pytest.mark.parametrize(
    ("line", "wordings"),
    [
        ("a (red|green|) hat", {"a red hat", "a green hat", "a hat"}),
        ("go [now]", {"go", "go now"}),
        ("see the {thing}", {"see the cat", "see the big dog"}),
        ("(about |)it", {"about it", "it"}),
        ("(a|(b|c) d)", {"a", "b d", "c d"}),
        ("do: run | eat", {"how to run", "run", "how to eat", "eat"}),
    ],
)
def test_all_and_only_the_written_wordings_come(tmp_path: Path, line: str, wordings: set[str]) -> None:
    assert drawn(tmp_path, f"# topic\n{line}\n") == wordings


@pytest.mark.parametrize("line", ["a (b", "a b)", "a [b", "{nothing}"])
def test_a_broken_line_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(ValueError, match=r"some\.txt, line 2"):
        drawn(tmp_path, f"# topic\n{line}\n")
