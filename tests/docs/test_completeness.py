"""The pages name all there is: subcommands, options, settings, keys, variables, files, commands, events."""

from __future__ import annotations

import importlib.util
import re
import sys
import typing
from pathlib import Path
from types import ModuleType

import pytest

import engine
from app.cli.commands import COMMANDS
from app.command_line import _parser
from app.paths import Paths
from app.settings import SETTINGS
from app.shortcuts import SHORTCUTS
from tests.docs.documents import DOCUMENTS, ROOT, USER_PAGES, read

QUOTED = re.compile(r'"([^"\n]+)"')
APPLES = {"Open Anyway", "Apple could not verify …", "… Not Opened"}
"""What macOS 15 says."""

USER = ROOT / "docs" / "user"
VARIABLE = re.compile(r"""["']((?:MLXR|HF|OLLAMA|XDG|QT|NO)_[A-Z_]+|(?:WAYLAND_)?DISPLAY)["']""")


def script(name: str) -> ModuleType:
    """A module of packaging/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "packaging" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def rows(page: str) -> dict[str, str]:
    """A page's tables: each row by its first cell, without backticks."""
    lines = [line for line in read(USER / page).text.splitlines() if line.startswith("| ")]
    return {line.split("|")[1].replace("`", "").strip(): line for line in lines}


def test_the_tables_of_options_are_those_of_the_parsers() -> None:
    page = (USER / "command-line.md").read_text("utf-8")
    assert script("docs_commands").renewed(page) == page, "run make docs"


def test_every_subcommand_has_its_part() -> None:
    parts = set(re.findall(r"<!-- options: ([a-z]+) -->", (USER / "command-line.md").read_text("utf-8")))
    assert parts == {command.name for command in COMMANDS}


def test_every_option_of_mlxr_itself_is_named() -> None:
    page = read(USER / "command-line.md")
    named = {word for span in page.spans for word in span.split() if word.startswith("--")}
    helped = _parser([])[0].format_help()
    assert set(re.findall(r"(--[a-z-]+)", helped)) <= named


def test_every_setting_is_told_with_its_values() -> None:
    text = read(USER / "settings.md").text
    lines = {line.split("|")[2].strip(" `"): line for line in text.splitlines() if line.count("|") > 4}
    for name, setting in SETTINGS.items():
        assert name in lines
        assert [value for value in setting.choices if f"`{value}`" not in lines[name]] == []


def test_every_key_is_told_and_does_what_is_said() -> None:
    told = rows("settings.md")
    assert [key for key in SHORTCUTS if not told.get(key.keys, "").split("|")[-2:-1]] == []
    assert [key for key in SHORTCUTS if key.does not in told[key.keys]] == []


def variables() -> set[str]:
    """Names of environment variables that stand as texts in the code that people run."""
    files = [file for folder in ("app", "engine", "metal") for file in (ROOT / folder).rglob("*.py")]
    return {name for file in files for name in VARIABLE.findall(file.read_text("utf-8"))}


def test_every_variable_is_told() -> None:
    told = set(read(USER / "settings.md").spans)
    assert {"MLXR_HOME", "MLXR_EXECUTOR", "MLXR_LOG", "HF_TOKEN"} <= variables()
    assert {name for name in variables() if not any(name in span for span in told)} == set()


def test_every_file_of_the_data_folder_is_told() -> None:
    told = set(read(ROOT / "docs" / "files.md").spans)
    home = Path("/home")
    names = [name for name, value in vars(Paths).items() if isinstance(value, property)]
    assert {getattr(Paths(home), name).name for name in names} <= told


@pytest.mark.parametrize("union", ["Command", "Event"])
def test_every_command_and_event_of_the_engine_is_told(union: str) -> None:
    told = {word for span in read(ROOT / "docs" / "engine-api.md").spans for word in re.findall(r"\w+", span)}
    assert {kind.__name__ for kind in typing.get_args(getattr(engine, union))} - told == set()


def test_every_error_of_the_engine_is_told() -> None:
    told = set(read(ROOT / "docs" / "engine-api.md").spans)
    offered = [getattr(engine, name) for name in engine.__all__]
    errors = {
        one.__name__ for one in offered if isinstance(one, type) and issubclass(one, engine.EngineError)
    }
    assert errors <= told


def words_of_the_app() -> str:
    """All texts in the code that people run, with … where something is filled in."""
    files = [file for folder in ("app", "engine", "packaging") for file in (ROOT / folder).rglob("*.py")]
    joined = re.sub(r'"\s*\n\s*f?"', "", "\n".join(file.read_text("utf-8") for file in files))
    return re.sub(r"\{[^{}]*\}", "…", joined)


def test_what_the_pages_quote_is_what_the_app_says() -> None:
    said = words_of_the_app()
    wrong = [
        f"{page.name}: {quoted}"
        for page in USER_PAGES
        for quoted in QUOTED.findall(re.sub(r"`[^`]*`|^    .*$", "", read(page).text, flags=re.MULTILINE))
        for part in re.split(r"…|\d[\d,]*", quoted)
        if part.strip(" .,:") not in said and quoted not in APPLES
    ]
    assert wrong == []


def test_every_page_is_found_from_the_first() -> None:
    found, ahead = set[Path](), [ROOT / "docs" / "index.md"]
    while ahead:
        page = ahead.pop()
        if page not in found and page.suffix == ".md" and page.exists():
            found.add(page)
            targets = (link.partition("#")[0] for link in read(page).links if "://" not in link)
            ahead += [(page.parent / target).resolve() for target in targets if target]
    assert {page for page in DOCUMENTS if page.is_relative_to(ROOT / "docs")} <= found


def test_the_readme_is_short() -> None:
    assert len(read(ROOT / "README.md").text.splitlines()) <= 120


def test_there_are_pages_for_users() -> None:
    named = {
        "getting-started",
        "models",
        "dashboard",
        "tuning",
        "troubleshooting",
        "command-line",
        "settings",
    }
    assert named <= {page.stem for page in USER_PAGES}
