"""How a run ended is told from what it left: by real processes that really end so."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from app.crash.boot import boot_id, memory_kills
from app.crash.inquest import MARKER, NOTES, OUTPUT, Ending, inquire
from app.crash.last_words import LastWords, read_last_words
from app.crash.marker import Marker, read_marker, write_marker
from app.crash.session import MOST_OUTPUT, RUNNING
from tests.app.crash.conftest import Run
from tests.app.crash.ending_child import SECRET


def crash(run: Run, **seen: object) -> Ending:
    """What is found of a run that crashed."""
    ending = run.inquest(**seen).ending  # type: ignore[arg-type]
    assert ending is not None
    return ending


@pytest.mark.parametrize(
    ("how", "number", "says"),
    [
        ("stray", signal.SIGSEGV, "SIGSEGV"),
        ("abort", signal.SIGABRT, "SIGABRT"),
        pytest.param("bus", signal.SIGBUS, "SIGBUS", marks=pytest.mark.long),
        pytest.param("illegal", signal.SIGILL, "SIGILL", marks=pytest.mark.long),
        ("trap", signal.SIGTRAP, "SIGTRAP"),
    ],
)
def test_a_fatal_signal_leaves_the_stacks_of_all_threads(
    how: str, number: signal.Signals, says: str, folder: Path
) -> None:
    run = Run(folder, how)
    assert run.end() == -number
    ending = crash(run)
    assert ending.how == "fatal signal"
    assert says in ending.what
    assert "ending_child.py" in ending.stacks
    assert ending.stacks.count("hread 0x") >= 2
    assert ending.doing == {"asked": "Generate tiny", "at": "now"}
    assert run.inquest().early_crashes == 1


def test_what_was_printed_last_is_kept_where_nobody_reads_it(folder: Path) -> None:
    run = Run(folder, "abort")
    run.end()
    assert crash(run).output == "[METAL] the device is gone"


def test_what_is_kept_of_that_does_not_grow_without_end(folder: Path) -> None:
    run = Run(folder, "much")
    run.end()
    assert (folder / RUNNING / OUTPUT).stat().st_size <= MOST_OUTPUT
    assert crash(run).how == "fatal signal"
    assert not crash(run).may_be_wanted


def test_an_exception_leaves_its_traceback_without_its_words(folder: Path) -> None:
    run = Run(folder, "exception")
    assert run.end() == 1
    ending = crash(run)
    assert ending.how == "exception"
    assert "ValueError: …" in ending.stacks
    assert SECRET not in ending.stacks
    assert run.inquest().early_crashes == 1


def test_who_is_killed_can_say_nothing_but_what_it_did(folder: Path) -> None:
    run = Run(folder, "wait")
    run.send(signal.SIGKILL)
    assert run.end() == -signal.SIGKILL
    ending = crash(run)
    assert (ending.how, ending.stacks) == ("killed", "")
    assert "ended from outside" in ending.what
    assert ending.may_be_wanted, "for all that is known"
    assert ending.doing["asked"] == "Generate tiny"


def test_where_the_system_ended_programs_for_memory_that_is_said(folder: Path) -> None:
    run = Run(folder, "wait")
    run.send(signal.SIGKILL)
    run.end()
    assert "lack of memory" not in crash(run, kills=memory_kills()).what
    marker = read_marker(folder / RUNNING / MARKER)
    assert marker is not None
    write_marker(folder / RUNNING / MARKER, Marker(pid=marker.pid, boot=boot_id(), memory_kills=7))
    assert "lack of memory" not in crash(run, kills=7).what
    assert "lack of memory" in crash(run, kills=8).what
    assert not crash(run, kills=8).may_be_wanted
    words = LastWords(folder / RUNNING / NOTES)
    words.note({"steps": {"is_short": True}})
    assert "short of memory" in crash(run, kills=7).what
    assert not crash(run, kills=7).may_be_wanted


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, pytest.param(signal.SIGHUP, marks=pytest.mark.long)]
)
def test_who_is_asked_to_end_ends_well(number: signal.Signals, folder: Path) -> None:
    run = Run(folder, "wait")
    run.send(number)
    assert run.end() >= 0
    assert run.inquest().ending is None


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.long)])
def test_who_is_asked_to_end_and_is_stuck_is_no_crash_when_it_is_killed(
    number: signal.Signals, folder: Path
) -> None:
    run = Run(folder, "stuck")
    assert run.said() == "stuck"
    run.send(number)
    run.wait_for_a_signal()
    run.send(signal.SIGKILL)
    assert run.end() == -signal.SIGKILL
    assert run.inquest().ending is None


@pytest.mark.parametrize("how", ["mistake of the user", "closing kill"])
def test_other_ends_are_none(how: str, folder: Path) -> None:
    run = Run(folder, how)
    run.end()
    assert run.inquest().ending is None
    assert run.inquest().early_crashes == 0


def test_an_end_before_the_machine_was_started_again_is_its_end(folder: Path) -> None:
    run = Run(folder, "wait")
    run.send(signal.SIGKILL)
    run.end()
    assert run.inquest(boot="another").ending is None
    assert run.inquest(boot="").ending is not None  # where the system does not tell


def test_a_crash_is_one_also_when_the_machine_was_started_again_since(folder: Path) -> None:
    run = Run(folder, "abort")
    run.end()
    assert crash(run, boot="another").how == "fatal signal"


def test_a_crash_late_or_while_closing_counts_for_nothing(folder: Path) -> None:
    late = Run(folder / "late", "calm abort")
    late.end()
    assert not crash(late).is_early
    assert late.inquest().early_crashes == 0
    closing = Run(folder / "closing", "closing abort")
    closing.end()
    assert "while it was closing" in crash(closing).what
    assert closing.inquest().early_crashes == 0


def test_what_cannot_be_read_is_no_crash(folder: Path) -> None:
    folder.mkdir()
    assert inquire(folder, "", None).ending is None
    for content in ("", "{", "[]", '{"pid": "x"}', '{"safe": 1}', '{"memory_kills": "many"}'):
        (folder / MARKER).write_text(content)
        assert inquire(folder, "", None).ending is None


def test_this_machine_tells_its_boot() -> None:
    assert boot_id() == boot_id() != ""


def test_half_a_note_is_not_read_but_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    words = LastWords(path)
    assert read_last_words(path) == {}
    for number in (1, 2, 3):
        words.note({"number": number})
    assert read_last_words(path) == {"number": 3}
    content = bytearray(path.read_bytes())
    content[content.rindex(b"3")] = ord("9")
    path.write_bytes(content)
    assert read_last_words(path) == {"number": 2}
    words.note({"too": "long" * 2000})
    assert read_last_words(path) == {"number": 2}
    words.close()
    words.note({"number": 4})
    assert read_last_words(tmp_path / "gone") == {}


def test_on_a_full_disk_nothing_is_taken_down(full_disk: Path) -> None:
    """A note on a mapped page that has no place there would end the process."""
    with pytest.raises(OSError, match="No space left"):
        LastWords(full_disk / "notes").note({"doing": "something"})
