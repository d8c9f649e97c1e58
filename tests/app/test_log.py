"""The log appears when there is something to say, holds it line by line, and never gets in the way."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.errors import UsageError
from app.log import KEPT_FILES, LEVEL_VARIABLE, MAX_BYTES, OURS, append, start_logging
from app.log_reader import Entry, entries


@pytest.fixture(autouse=True)
def _restored_loggers() -> Iterator[None]:
    root = logging.getLogger()
    handlers, loggers = list(root.handlers), [root, *map(logging.getLogger, OURS)]
    levels = [logger.level for logger in loggers]
    yield
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "mlxr.log"


def told(path: Path, level: str = "debug", words: str = "") -> list[str]:
    return [entry.words for entry in entries(path, level, words)]


def test_a_warning_makes_the_file(path: Path) -> None:
    start_logging(path)
    logging.getLogger("app.test").info("nothing worth a file")
    assert not path.parent.exists()
    logging.getLogger("app.test").warning("the disk is %s", "full\nπ")
    (entry,) = entries(path)
    assert datetime.now(UTC) - datetime.fromisoformat(entry.time) < timedelta(minutes=1)
    thread = "MainThread"
    assert entry == Entry(entry.time, "warning", "app.test", os.getpid(), thread, "the disk is full\nπ")
    assert len(path.read_text("utf-8").splitlines()) == 1


def test_a_disk_that_refuses_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    start_logging(tmp_path / "file" / "mlxr.log")
    logging.getLogger("app.test").error("lost")
    assert capsys.readouterr().err == ""


def test_an_exception_comes_with_its_trace(path: Path) -> None:
    start_logging(path)
    try:
        raise OSError("no room")
    except OSError:
        logging.getLogger("app.test").exception("it failed")
    append(path, "at the top", "Traceback: of another")
    last, first = entries(path)
    assert (first.words, first.trace.splitlines()[-1]) == ("it failed", "OSError: no room")
    assert (last.level, last.words, last.trace) == ("error", "at the top", "Traceback: of another")


def test_our_own_parts_tell_more_where_it_is_asked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEVEL_VARIABLE, "debug")
    start_logging(path)
    logging.getLogger("engine.kv").debug("of ours")
    logging.getLogger("httpx").info("GET https://somewhere")
    assert told(path) == ["of ours"]


def test_a_level_that_is_none_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEVEL_VARIABLE, "loud")
    with pytest.raises(UsageError, match="'loud'; it must be one of debug, info, warning, error"):
        start_logging(path)


def test_the_log_stays_small_and_is_read_across_its_files(path: Path) -> None:
    start_logging(path)
    log, size = logging.getLogger("app.test"), 100_000
    count = 2 * (KEPT_FILES + 1) * MAX_BYTES // size
    for number in range(count):
        log.warning("%d %s", number, "x" * size)
    files = list(path.parent.iterdir())
    assert len(files) == KEPT_FILES + 1
    assert max(file.stat().st_size for file in files) <= MAX_BYTES
    numbers = [int(words.split()[0]) for words in told(path)]
    assert numbers == list(range(count - 1, count - 1 - len(numbers), -1))
    assert len(numbers) * size > KEPT_FILES * MAX_BYTES * 0.8


def test_entries_are_found_by_level_and_words(path: Path) -> None:
    start_logging(path)
    logging.getLogger("app.store").warning("the Disk is full")
    logging.getLogger("app.hub").error("the hub is away")
    assert told(path) == ["the hub is away", "the Disk is full"]
    assert told(path, "error") == ["the hub is away"]
    assert told(path, words="disk STORE") == ["the Disk is full"]
    assert told(path, words="disk hub") == []


def test_lines_that_are_none_of_ours_are_told_as_they_are(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'cut of\n{"level": "warning"}\n[1]\n\xff\n')
    assert told(path) == ["�", "[1]", '{"level": "warning"}', "cut of"]
    assert told(path.with_name("gone")) == []


SECRETS = {
    "a hub's token hf_abcDEF123456 was refused": "hf_abcDEF123456",
    "GET https://hub/x?X-Amz-Signature=abc123&Expires=1 failed": "abc123",
    "proxy http://user:pa55word@host:80/ is down": "pa55word",
    "{'Authorization': 'Bearer abcdef.123-456'}": "abcdef.123-456",
    'api_key="0123456789abcdef"': "0123456789abcdef",
    "x-api-key: sk-0123456789abcdef": "0123456789abcdef",
    "password = correct-horse": "correct-horse",
    "the environment's odd!token$value": "odd!token$value",
}


@pytest.mark.parametrize("text", SECRETS)
def test_secrets_reach_no_log(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "odd!token$value")
    start_logging(path)
    try:
        raise ValueError(text)
    except ValueError as error:
        logging.getLogger("app.test").exception("%s", error)
    append(path, text, f"Traceback:\n{text}")
    written = path.read_text("utf-8")
    assert SECRETS[text] not in written
    assert "…" in written


@pytest.mark.parametrize(
    "text",
    [
        "token id 99999 is outside the model's vocabulary of 32,000",
        "https://huggingface.co/org/tiny was not found",
        "the tokenizer's tokens: 1, 2, 3; basic Latin",
        "mail somebody@example.org",
    ],
)
def test_what_is_no_secret_stays(path: Path, text: str) -> None:
    append(path, text, "")
    assert told(path) == [text]
