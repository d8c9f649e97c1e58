"""Commands in the documentation are such as `mlxr` takes, and those behind a `$` do what they should."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from pathlib import Path

import pytest

from app.cli.commands import COMMANDS
from app.command_line import _parser, _without_wanted
from app.errors import UsageError
from tests.app.cli.conftest import Run
from tests.app.cli.conftest import mlxr as mlxr
from tests.app.cli.conftest import mlxr_here as mlxr_here
from tests.docs.documents import DOCUMENTS, ROOT, USER_PAGES, Command, commands, read

OPTION = re.compile(r"--[a-z-]+")
QUICK = ("models", "kernels", "convert")
"""Subcommands that load no model."""
TRIED = sorted(
    {
        command.arguments
        for path in (ROOT / "README.md", *USER_PAGES)
        for command in commands(read(path))
        if command.is_tried and not command.piped
    }
)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_command_is_one(path: Path) -> None:
    wrong = [
        f"mlxr {' '.join(command.arguments)}: {problem}"
        for command in commands(read(path))
        if (problem := problem_of(command))
    ]
    assert wrong == []


def problem_of(command: Command) -> str:
    """Why `mlxr` would not take it, or ""."""
    words = [
        "a.gguf" if word == "FILE" and not place else word for place, word in enumerate(command.arguments)
    ]
    arguments, _ = _without_wanted(words)
    try:
        _parser(arguments)[0].parse_args(arguments)
    except SystemExit as end:  # --help, --version
        return "" if not end.code else "it ends with an error"
    except UsageError as error:
        return str(error) if command.is_line else problem_in_words(arguments) and str(error)
    return ""


def problem_in_words(arguments: list[str]) -> str:
    """Why a sentence is wrong that names a subcommand and options, perhaps without what they take, or ""."""
    spec = next((command for command in COMMANDS if arguments and command.name == arguments[0]), None)
    is_whole = not any("…" in word or word.startswith("--") for word in arguments) and len(arguments) > 1
    if spec is None or is_whole:
        return "it is no command"
    parser = ArgumentParser()
    spec.load().add_arguments(parser)
    unknown = {word for word in arguments if word.startswith("--")} - set(
        OPTION.findall(parser.format_help())
    )
    return f"there is no {', '.join(unknown)}" if unknown else ""


@pytest.mark.parametrize(
    ("arguments", "is_line", "is_right"),
    [
        (("generate", "--json"), False, True),
        (("generate", "--json"), True, False),
        (("generate", "--jsno"), False, False),
        (("serve",), False, False),
        (("bench", "…", "--json"), False, True),
        (("bench", "…", "--yaml"), False, False),
        (("rm", "one", "two"), False, False),
        (("mlxr://model/a/b",), True, True),
        (("FILE",), False, True),
        (("--version",), True, True),
    ],
)
def test_what_the_check_of_commands_finds(arguments: tuple[str, ...], is_line: bool, is_right: bool) -> None:
    assert (problem_of(Command(arguments, is_line, is_tried=False)) == "") is is_right


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(one, marks=() if one[0] in QUICK else pytest.mark.long, id=" ".join(one)[:60])
        for one in TRIED
    ],
)
def test_what_is_written_behind_a_prompt_works(
    arguments: tuple[str, ...], mlxr: Run, mlxr_here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("resources", "tests"):  # such as a reader sees in a checkout
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    done = mlxr(*arguments) if arguments[0] == "chat" else mlxr_here(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.long
def test_the_readmes_answer_is_the_one_that_is_given(mlxr: Run) -> None:
    lines = [line for _, line in read(ROOT / "README.md").lines]
    place = lines.index('$ .venv/bin/mlxr chat "What is a page?"')
    assert mlxr("chat", "--temperature", 0, "What is a page?").stdout.strip() == lines[place + 1].strip()
