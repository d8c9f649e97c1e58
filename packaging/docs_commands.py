"""Writes the tables of options into docs/user/command-line.md, from the parsers that `mlxr` itself uses.

    python packaging/docs_commands.py

What stands between `<!-- options: NAME -->` and `<!-- end -->` is renewed; the rest is written by hand.
"""

from __future__ import annotations

import re
import sys
from argparse import SUPPRESS, Action, ArgumentParser, HelpFormatter
from pathlib import Path

from app.cli.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "user" / "command-line.md"
BLOCK = re.compile(r"(<!-- options: ([a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


class _Rows(HelpFormatter):
    """Collects what the help would show, as rows of a table."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self.rows: list[str] = []

    def add_argument(self, action: Action) -> None:
        """Take in one argument of the parser."""
        if action.help is not SUPPRESS:
            self.rows.append(f"| {_named(action)} | {_words(action, self._expand_help(action))} |")

    def format_help(self) -> str:
        """The table."""
        return "\n".join(["| argument | does |", "|---|---|", *self.rows]) + "\n"


def _named(action: Action) -> str:
    """How the argument is written: `--prompt T`, `PROMPT`."""
    value = action.metavar or action.dest.upper()
    words = [value] if isinstance(value, str) else list(value)
    takes = [] if action.nargs == 0 else words
    ways = action.option_strings or [""]
    return ", ".join(f"`{' '.join([way, *takes]).strip()}`" for way in ways)


def _words(action: Action, expanded: str) -> str:
    """The argument's help, and what may be given where that is a short list."""
    choices = "" if action.choices is None else f"; one of {', '.join(map(str, action.choices))}"
    return f"{expanded}{choices}".replace("|", r"\|")


def table(name: str) -> str:
    """The arguments of a subcommand. Raises KeyError for one that does not exist."""
    spec = {command.name: command for command in COMMANDS}[name]
    rows: list[_Rows] = []

    def collector(prog: str) -> _Rows:
        rows.append(_Rows(prog))
        return rows[-1]

    parser = ArgumentParser(prog=f"mlxr {name}", formatter_class=collector, add_help=False)
    spec.load().add_arguments(parser)
    return parser.format_help()


def renewed(text: str) -> str:
    """The page with its tables as they should be."""
    return BLOCK.sub(lambda block: f"{block[1]}\n{table(block[2])}\n{block[3]}", text)


def main() -> int:
    """Renew the page. Returns the exit code."""
    text = PAGE.read_text("utf-8")
    PAGE.write_text(renewed(text), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
