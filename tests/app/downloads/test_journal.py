"""The journal of unfinished downloads, shared by processes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from app.downloads.journal import DOWNLOADS, Journal
from app.downloads.wanted import Plan, PlannedFile, Wanted
from app.store.schema import migrate

PLAN = Plan("c" * 40, (PlannedFile("a/m.gguf", 5, "a" * 64), PlannedFile("config.json", 2, "b" * 40)), "q8_0")


def test_everything_is_there_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "d.sqlite3")
    first = journal.add(Wanted("org/one", "q8_0", "", "v1"))
    second = journal.add(Wanted("org/two", file="x.gguf"))
    journal.note_plan(first.id, PLAN)
    journal.note_state(second.id, "failed", "no network")
    journal.close()
    journal = Journal(tmp_path / "d.sqlite3")
    one, two = journal.pending()
    assert (one.wanted, one.plan, one.state) == (first.wanted, PLAN, "waiting")
    assert (two.wanted, two.plan, two.state, two.words) == (second.wanted, None, "failed", "no network")
    journal.close()


def test_the_same_request_is_one_download_that_waits_again_with_its_plan(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "d.sqlite3")
    entry = journal.add(Wanted("org/one"))
    journal.note_plan(entry.id, PLAN)
    journal.note_state(entry.id, "failed", "why")
    again = journal.add(Wanted("org/one"))
    assert (again.id, again.plan, again.state, again.words) == (entry.id, PLAN, "waiting", "")
    assert journal.add(Wanted("org/one", revision="dev")).id != entry.id
    journal.drop_plan(entry.id)
    assert journal.pending()[0].plan is None
    journal.forget(entry.id)
    assert [left.wanted.revision for left in journal.pending()] == ["dev"]
    journal.close()


def test_two_processes_see_each_others_downloads(tmp_path: Path) -> None:
    here, there = Journal(tmp_path / "d.sqlite3"), Journal(tmp_path / "d.sqlite3")
    here.add(Wanted("org/one"))
    assert [entry.wanted.repo for entry in there.pending()] == ["org/one"]
    here.close()
    there.close()


def test_a_damaged_file_is_moved_aside_and_a_new_one_begun(tmp_path: Path) -> None:
    (tmp_path / "d.sqlite3").write_bytes(b"SQLite format 3\0" + b"no" * 2000)
    journal = Journal(tmp_path / "d.sqlite3")
    assert "was damaged" in journal.problem
    journal.add(Wanted("org/one"))
    assert len(journal.pending()) == 1
    journal.close()
    assert list(tmp_path.glob("d.sqlite3.damaged-*"))


def test_where_nothing_can_be_written_downloads_run_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = Journal(tmp_path / "file" / "d.sqlite3")
    assert "Downloads cannot be saved" in journal.problem
    entry = journal.add(Wanted("org/one"))
    assert journal.pending() == [entry]
    journal.close()


def test_what_cannot_be_noted_down_is_not_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "downloads.sqlite3"
    journal = Journal(path)
    journal.add(Wanted("tiny/chat"))
    journal.close()
    path.with_name(path.name + "-shm").mkdir()  # as on a full disk, SQLite has nothing to write ahead with
    unsaved = Journal(path)
    assert "cannot be saved" in unsaved.problem
    assert unsaved.pending() == []
    unsaved.close()


def test_a_journal_of_the_first_version_is_brought_up_with_what_it_holds(tmp_path: Path) -> None:
    old = sqlite3.connect(tmp_path / "d.sqlite3", isolation_level=None)
    migrate(old, DOWNLOADS.migrations[:1])
    for repo, added in (("org/late", 2.0), ("org/early", 1.0)):
        old.execute(
            "INSERT INTO downloads (repo, quant, file, revision, plan, state, words, added) "
            "VALUES (?, 'q8_0', '', 'main', '', 'failed', 'no network', ?)",
            (repo, added),
        )
    old.close()
    journal = Journal(tmp_path / "d.sqlite3")
    assert [entry.wanted for entry in journal.pending()] == [
        Wanted("org/late", "q8_0"),
        Wanted("org/early", "q8_0"),
    ]
    assert {entry.words for entry in journal.pending()} == {"no network"}
    assert journal.add(Wanted("org/new")).id == 3
    journal.close()
