"""The report says what helps, and holds no chat, no secret and no name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.crash.inquest import Ending
from app.crash.marker import Marker
from app.crash.privacy import LEFT_OUT, without_messages
from app.crash.report import MOST_OUTPUT, MOST_STACKS, report_text
from app.crash.reports import MOST_BYTES, MOST_REPORTS, Reports
from app.log import append

DOING = {
    "at": "2026-01-02T03:04:05+00:00",
    "asked": "Generate tiny-chat",
    "loading": "",
    "model": {
        "name": "tiny-chat",
        "family": "llama",
        "weights": 6_400_000,
        "dtype": "float16",
        "context": 4096,
        "executor": "metal",
        "reason": "kernels of our own",
        "device": "Metal",
    },
    "steps": {
        "running": 1,
        "waiting": 2,
        "requests": [{"prompt": 1204, "read": 512, "written": 0}],
        "pages": 32,
        "cached_pages": 8,
        "total_pages": 512,
        "memory": 1_800_000_000,
        "is_short": True,
    },
}
TYPED = "my diagnosis is private"


def told(ending: Ending, tmp_path: Path, machine: tuple[str, ...] = ("chip: M9",)) -> str:
    return report_text(ending, "now", machine, tmp_path / "ada" / "mlxr.log", tmp_path / "ada")


def ending(**changes: object) -> Ending:
    marker = Marker("0.1.0", {"mlx": "0.32.4"}, 7, "then", safe="a key was held")
    return Ending("fatal signal", "MLXR crashed.", marker, **changes)  # type: ignore[arg-type]


def test_it_has_what_helps(tmp_path: Path) -> None:
    append(tmp_path / "ada" / "mlxr.log", "the disk is full", "")
    text = told(ending(stacks="Fatal Python error: Aborted", doing=DOING, output="[METAL] no"), tmp_path)
    for words in (
        "# MLXR crashed.",
        "MLXR 0.1.0, MLX 0.32.4",
        "chip: M9",
        "Safe mode: a key was held",
        "Asked last: Generate tiny-chat",
        "tiny-chat (llama, 6.4 MB, float16, context 4,096)",
        "metal on Metal: kernels of our own",
        "1 running, 2 waiting",
        "prompt 1,204 tokens, 512 in pages, 0 written",
        "32 in use, 8 cached, of 512",
        "1.8 GB, and the system was short of it",
        "Fatal Python error: Aborted",
        "[METAL] no",
        "the disk is full",
    ):
        assert words in text
    assert text.count("```") == 2 * text.count("## ")


def test_what_was_never_told_is_said(tmp_path: Path) -> None:
    text = told(ending(), tmp_path)
    for words in ("nothing yet", "could say nothing any more", "nothing that was kept", "```\nnothing\n```"):
        assert words in text


def test_it_holds_no_chat_no_secret_and_no_name(tmp_path: Path) -> None:
    home = tmp_path / "ada"
    trace = f'Traceback (most recent call last):\n  File "{home}/x.py"\nValueError: bad\n{TYPED}\n    {TYPED}'
    log = home / "mlxr.log"
    append(log, f"something broke inside the engine ({TYPED}); the log has the details\n{trace}", "")
    append(log, "it failed", trace)
    append(log, "token: hf_abcDEF123456", "")
    text = told(ending(stacks=trace, output=trace, doing={"asked": "LoadModel x"}), tmp_path)
    assert TYPED not in text
    assert "hf_abc" not in text
    assert str(home) not in text
    assert text.count("ValueError: ") == 4
    assert "~/x.py" in text


@pytest.mark.parametrize(
    ("line", "stays"),
    [
        ("RuntimeError: [metal] no memory", True),
        ("OSError: [Errno 28] No space left on device", True),
        ("KeyError: 'what was typed'", False),
        ("jinja2.exceptions.TemplateError: what was typed", False),
        ("MLXR made a mistake (ValueError: typed)", False),
        ("an Error: in plain words", True),
    ],
)
def test_messages_stay_only_where_they_are_of_programs(line: str, stays: bool) -> None:
    assert (without_messages(line) == line) == stays
    assert ("typed" in without_messages(line)) == (stays and "typed" in line)
    assert (LEFT_OUT in without_messages(line)) != stays


def test_what_comes_after_a_message_of_many_lines_is_told_again() -> None:
    second = "Traceback (most recent call last):\n  File x\nTypeError: plain"
    text = f"ValueError: a\nb\n\n{second}"
    assert without_messages(text) == f"ValueError: {LEFT_OUT}\n{second}"


def test_long_parts_are_cut(tmp_path: Path) -> None:
    text = told(ending(stacks="s" * 2 * MOST_STACKS, output="o" * 2 * MOST_OUTPUT), tmp_path)
    assert len(text) < 1.1 * (MOST_STACKS + MOST_OUTPUT)
    assert "characters more" in text


def test_notes_of_another_version_are_told_as_far_as_they_go(tmp_path: Path) -> None:
    assert "Asked last: x" in told(ending(doing=json.loads('{"asked": "x", "else": 1}')), tmp_path)


def test_the_folder_holds_the_newest_few_and_none_is_large(tmp_path: Path) -> None:
    reports = Reports(tmp_path / "crashes")
    assert reports.all() == []
    paths = [reports.save(f"number {number}") for number in range(MOST_REPORTS + 3)]
    assert reports.all() == paths[: -MOST_REPORTS - 1 : -1]
    large = reports.save("ä" * MOST_BYTES)
    assert large.stat().st_size <= MOST_BYTES + 20
    assert large.stat().st_mode & 0o077 == 0
