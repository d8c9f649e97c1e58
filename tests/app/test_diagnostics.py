"""The text for a bug report has what helps, and neither secrets nor the user's name."""

from __future__ import annotations

from pathlib import Path

from app.diagnostics import MOST_ENTRIES, diagnostics
from app.log import append


def test_it_has_the_findings_and_the_end_of_the_log(tmp_path: Path) -> None:
    home = tmp_path / "ada"
    log = home / "mlxr.log"
    for number in range(MOST_ENTRIES + 5):
        append(log, f"failed {number} in {home}/models", "")
    append(log, "token: hf_abcDEF123456", "\n".join(f"line {n}" for n in range(40)) + "\nOSError: ```no room")
    text = diagnostics(["System", f"  folder {home}/models"], log, home)
    assert text.startswith("## MLXR\n```\nSystem\n  folder ~/models\n```\n## The log, newest first\n```\n")
    assert str(home) not in text
    assert "hf_abc" not in text
    assert "    OSError: '''no room" in text
    assert "line 5\n" not in text
    failed = [line.split("failed ")[1].split()[0] for line in text.splitlines() if "failed" in line]
    assert failed == [str(number) for number in range(MOST_ENTRIES + 4, 5, -1)]
    assert text.count("```") == 4


def test_a_log_that_is_not_there_is_nothing(tmp_path: Path) -> None:
    assert "```\nnothing\n```" in diagnostics([], tmp_path / "mlxr.log", tmp_path)


def test_a_log_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "mlxr.log").mkdir()
    assert "the log cannot be read: Is a directory" in diagnostics(
        [], tmp_path / "mlxr.log", Path("/nowhere")
    )
