"""The choice: nothing measured when asked, remembered, forgotten when anything changes, safe from crashes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from metal.selection import Selection
from metal.trial_case import Case
from metal.trial_record import CandidateRecord, OpRecord
from metal.trial_runner import TrialRunner
from metal.trial_scope import Scope
from tests.metal.trial_provider import CLOCKED, LONG, over_at, spec, twice

SCOPE = Scope("a Mac", "0.32.4", "emulated")


def selection(folder: Path, scope: Scope = SCOPE) -> Selection:
    return Selection(folder, scope, TrialRunner("emulated", folder, limit_s=LONG, command=CLOCKED))


def candidate(record: OpRecord, name: str) -> CandidateRecord:
    return next(one for one in record.candidates if one.name == name)


def case(*names: str, key: str = "twice", digest: str = "0", log: Path | None = None) -> Case:
    return twice(spec(*names, key=key, digest=digest, log=log).params)


def test_asking_measures_nothing_and_gives_the_builtin(tmp_path: Path) -> None:
    log = tmp_path / "log"
    chooser = selection(tmp_path)
    assert chooser.choose(case("fast", log=log)) == "mlx"
    assert chooser.pending == ("twice",)
    assert chooser.table()[0].candidates[1].status == "untried"
    assert not log.exists()
    assert not (tmp_path / "kernels.json").exists()


def test_the_fastest_that_agrees_is_chosen_and_remembered(tmp_path: Path) -> None:
    log = tmp_path / "log"
    chooser = selection(tmp_path)
    tried = case("slow", "fast", "wrong", log=log)
    chooser.choose(tried)
    (record,) = chooser.run_pending()
    assert chooser.pending == ()
    assert chooser.choose(tried) == record.chosen == "fast"
    assert [(one.name, one.status) for one in record.candidates] == [
        ("mlx", "slower"),
        ("slow", "slower"),
        ("fast", "chosen"),
        ("wrong", "disagrees"),
    ]
    assert "times as fast as MLX's" in candidate(record, "fast").reason
    took = {one.name: one.microseconds for one in record.candidates}
    assert took == pytest.approx({"mlx": 3000, "slow": 6000, "fast": 20, "wrong": None})
    size = log.stat().st_size
    again = selection(tmp_path)
    assert again.choose(tried) == "fast"
    assert (again.pending, again.table(), log.stat().st_size) == ((), (record,), size)


def test_where_no_kernel_is_faster_the_builtin_stays(tmp_path: Path) -> None:
    chooser = selection(tmp_path)
    chooser.choose(case("slow"))
    (record,) = chooser.run_pending()
    assert record.chosen == "mlx"
    assert candidate(record, "mlx").reason == "no kernel is faster"
    assert candidate(record, "slow").reason == "takes 2.00 times as long as MLX's"


def test_the_error_of_mlx_itself_is_told_and_not_judged(tmp_path: Path) -> None:
    chooser = selection(tmp_path)
    chooser.choose(case("wrong", "fast", key="times 2.3"))
    (record,) = chooser.run_pending()
    assert record.chosen == "wrong"
    assert candidate(record, "mlx").status == "slower"
    assert (candidate(record, "mlx").error or 0.0) > 0.1
    assert candidate(record, "fast").status == "disagrees"


def test_what_kills_or_hangs_is_disabled_for_good_and_at_every_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    over_at(monkeypatch, log, "spins")
    chooser = selection(tmp_path)
    names = ("aborts", "spins")
    chooser.choose(case(*names, log=log))
    (record,) = chooser.run_pending()
    assert record.chosen == "mlx"
    assert candidate(record, "aborts").reason == "ended by signal 6 (abort)"
    assert candidate(record, "spins").reason == "did not finish within 600 s"
    ran = log.read_text()
    again = selection(tmp_path)
    again.choose(case(*names, log=log))
    assert again.pending == ()
    again.choose(case(*names, key="twice, wider", log=log))
    assert again.run_pending() == ()
    wider = next(one for one in again.table() if one.key == "twice, wider")
    assert candidate(wider, "spins").reason == "hangs at twice: did not finish within 600 s"
    assert (again.pending, log.read_text()) == ((), ran)


@pytest.mark.parametrize(
    "scope",
    [replace(SCOPE, machine="another Mac"), replace(SCOPE, mlx="0.33.0"), replace(SCOPE, executor="metal")],
)
def test_another_machine_mlx_or_executor_starts_anew(tmp_path: Path, scope: Scope) -> None:
    chooser = selection(tmp_path)
    chooser.choose(case("fast"))
    chooser.run_pending()
    other = selection(tmp_path, scope)
    assert other.choose(case("fast")) == "mlx"
    assert other.pending == ("twice",)
    assert selection(tmp_path).choose(case("fast")) == "fast"


def test_a_new_kernel_text_is_tried_and_an_old_failure_is_not(tmp_path: Path) -> None:
    log = tmp_path / "log"
    chooser = selection(tmp_path)
    chooser.choose(case("aborts", "fast", log=log))
    chooser.run_pending()
    log.unlink()
    again = selection(tmp_path)
    assert again.choose(case("aborts", "slow", "fast", log=log)) == "mlx"  # one more candidate
    (record,) = again.run_pending()
    assert record.chosen == "fast"
    assert "aborts" not in log.read_text()
    assert again.choose(case("aborts", "slow", "fast", digest="1", log=log)) == "mlx"
    again.run_pending()
    assert "aborts" in log.read_text()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[" * 100_000,
        "[1, 2]",
        '{"format": 99, "scopes": []}',
        '{"format": 1, "scopes": [{"scope": {}, "ops": [{"key": 1}]}]}',
        '{"format": 1, "scopes": {"a": "b"}}',
        "\x00\xff",
    ],
)
def test_a_damaged_or_foreign_file_is_ignored_and_replaced(tmp_path: Path, content: str) -> None:
    file = tmp_path / "kernels.json"
    file.write_bytes(content.encode("latin-1"))
    chooser = selection(tmp_path)
    chooser.choose(case("fast"))
    chooser.run_pending()
    assert json.loads(file.read_text())["format"] == 1
    assert selection(tmp_path).choose(case("fast")) == "fast"


def test_a_verdict_on_other_candidates_is_no_verdict(tmp_path: Path) -> None:
    chooser = selection(tmp_path)
    chooser.choose(case("fast"))
    chooser.run_pending()
    file = tmp_path / "kernels.json"
    file.write_text(file.read_text().replace('"chosen": "fast"', '"chosen": "gone"'))
    assert selection(tmp_path).choose(case("fast")) == "mlx"


KILLED = """
import sys
from pathlib import Path
from metal.selection import Selection
from metal.trial_runner import TrialRunner
from metal.trial_scope import Scope
from tests.metal.trial_provider import CLOCKED, spec, twice
folder = Path(sys.argv[1])
runner = TrialRunner("emulated", folder, limit_s=60, command=CLOCKED)
chooser = Selection(folder, Scope("a Mac", "0.32.4", "emulated"), runner)
chooser.choose(twice(spec("sleeps", "fast", log=folder / "log").params))
chooser.run_pending()
"""


def test_what_ran_when_the_machine_stopped_is_disabled_and_the_rest_tried(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", KILLED, tmp_path], env=os.environ) as process:
        deadline = time.monotonic() + 60
        while (not log.exists() or "sleeps" not in log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
        busy = selection(tmp_path)
        busy.choose(case("sleeps", "fast"))
        assert busy.run_pending() == ()
        assert busy.problem == "another MLXR is trying kernels now"
        process.send_signal(signal.SIGKILL)
    chooser = selection(tmp_path)
    assert chooser.choose(case("sleeps", "fast")) == "mlx"
    (record,) = chooser.run_pending()
    assert record.chosen == "fast"
    assert candidate(record, "sleeps").status == "died"
    assert candidate(record, "sleeps").reason == "was being tried when MLXR or the machine stopped"


def test_a_trial_that_is_stopped_leaves_its_case_pending_and_nothing_disabled(tmp_path: Path) -> None:
    log = tmp_path / "log"
    chooser = selection(tmp_path)
    chooser.choose(case("sleeps", log=log))
    assert chooser.run_pending(stop=lambda: log.exists() and "sleeps" in log.read_text()) == ()
    assert (chooser.pending, chooser.problem) == (("twice",), "")
    assert candidate(chooser.table()[0], "sleeps").status == "untried"
    assert '"trying"' not in (tmp_path / "kernels.json").read_text()


def test_after_its_budget_no_further_case_is_begun(tmp_path: Path) -> None:
    chooser = selection(tmp_path)
    for key in ("a", "b"):
        chooser.choose(case("fast", key=key))
    assert [record.key for record in chooser.run_pending(0.0)] == ["a"]
    assert chooser.pending == ("b",)


def test_of_what_is_pending_only_the_keys_asked_for_are_tried(tmp_path: Path) -> None:
    chooser = selection(tmp_path)
    for key in ("a", "b", "c"):
        chooser.choose(case("fast", key=key))
    assert [record.key for record in chooser.run_pending(keys={"c", "a", "other"})] == ["a", "c"]
    assert chooser.pending == ("b",)


def test_two_processes_write_one_file(tmp_path: Path) -> None:
    text = (
        "import sys\nfrom pathlib import Path\nfrom metal.trial_cache import TrialCache\n"
        "from metal.trial_record import CandidateRecord, OpRecord\nfrom metal.trial_scope import Scope\n"
        "cache = TrialCache(Path(sys.argv[1]), Scope('a Mac', '0.32.4', 'emulated'))\n"
        "for index in range(30):\n"
        "    op = OpRecord(f'{sys.argv[2]} {index}', 'mlx', (CandidateRecord('mlx', '', 'chosen'),))\n"
        "    cache.update(lambda records: records.update({op.key: op}))\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", text, tmp_path, str(n)]) for n in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert len(selection(tmp_path).table()) == 60


def test_without_a_place_to_write_down_nothing_is_launched(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = tmp_path / "log"
    chooser = selection(tmp_path / "file" / "folder")
    assert chooser.choose(case("fast", log=log)) == "mlx"
    assert chooser.run_pending() == ()
    assert "kernels.json cannot be written" in chooser.problem
    assert not log.exists()


def test_a_process_that_does_not_start_disables_nothing(tmp_path: Path) -> None:
    runner = TrialRunner("emulated", tmp_path, command=(sys.executable, "-c", ""))
    chooser = Selection(tmp_path, SCOPE, runner)
    chooser.choose(case("fast"))
    assert chooser.run_pending() == ()
    assert "did not start: ended with code 0" in chooser.problem
    assert candidate(chooser.table()[0], "fast").status == "untried"
    assert chooser.pending == ("twice",)


@pytest.mark.parametrize(
    ("name", "says"), [("hungry", "Unable to allocate"), ("killed", r"ended by signal 9 \(killed\)")]
)
def test_where_memory_runs_out_nothing_is_disabled(tmp_path: Path, name: str, says: str) -> None:
    chooser = selection(tmp_path)
    for key, kernel in (("a", name), ("b", "fast")):
        chooser.choose(case(kernel, key=key))
    (record,) = chooser.run_pending()
    assert (record.key, record.chosen) == ("b", "fast")
    assert chooser.pending == ("a",)
    assert re.search(says, chooser.problem)
    assert candidate(chooser.table()[0], name).status == "untried"
    assert '"trying"' not in (tmp_path / "kernels.json").read_text()


def test_an_op_without_kernels_needs_no_trial(tmp_path: Path) -> None:
    chooser = selection(tmp_path)
    assert chooser.choose(case()) == "mlx"
    assert chooser.pending == ()
    assert chooser.table()[0].candidates[0].reason == "there is no kernel for it"
