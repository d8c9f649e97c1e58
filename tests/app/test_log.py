"""The log file appears when there is something to say, and never gets in the way."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.log import start_logging


@pytest.fixture(autouse=True)
def _restored_root() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


def test_a_warning_makes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "home" / "mlxr.log"
    start_logging(path)
    logging.getLogger("app.test").info("nothing worth a file")
    assert not path.parent.exists()
    logging.getLogger("app.test").warning("the disk is full")
    assert "WARNING app.test: the disk is full" in path.read_text("utf-8")


def test_a_disk_that_refuses_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    start_logging(tmp_path / "file" / "mlxr.log")
    logging.getLogger("app.test").error("lost")
    assert capsys.readouterr().err == ""
