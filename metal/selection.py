"""Chooses between MLX's built-in and our kernels for each op, by measurement on this machine."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

from metal import trial_verdict as verdict
from metal.trial_cache import TrialCache
from metal.trial_case import Case
from metal.trial_record import OpRecord
from metal.trial_runner import Checked, Dropped, Postponed, Timed, TrialError, TrialRunner
from metal.trial_scope import Scope


class Selection:
    """The choice for each op at each shape class, remembered in a file.

    `choose` may be called on one thread while `run_pending` runs on another.

    Args:
        folder: where the verdicts are kept (`kernels.json`).
        scope: what they hold for.
        runner: tries kernels in processes of their own; None for one with the usual limits.

    Attributes:
        problem: why the last `run_pending` could not make trials, or "".
    """

    def __init__(self, folder: Path, scope: Scope, runner: TrialRunner | None = None) -> None:
        self._cache = TrialCache(folder, scope)
        self._runner = runner or TrialRunner(scope.executor, folder / "emulated")
        self._lock = threading.Lock()
        self._records = self._cache.read()
        self._pending: dict[str, Case] = {}
        self.problem = ""

    def choose(self, case: Case) -> str:
        """The candidate to run: the one that won here, else MLX's built-in. See `record`."""
        return self.record(case).chosen

    def record(self, case: Case) -> OpRecord:
        """What is known of the case's candidates. Measures nothing, reads no file.

        A case without a verdict is put on the list of pending trials.
        """
        with self._lock:
            record = verdict.known(case, self._records.get(case.key))
            if not record.is_settled:
                self._pending[case.key] = case
            self._records[case.key] = record
            return record

    def disable(self, digests: Container[str], reason: str) -> None:
        """Kernels of these texts are not launched any more, here and in other processes from now on."""

        def judge(records: dict[str, OpRecord]) -> None:
            records |= {key: verdict.disabled(one, digests, reason) for key, one in records.items()}

        with self._lock:
            judge(self._records)
        try:
            self._cache.update(judge)
        except OSError as error:
            self.problem = f"{self._cache.path} cannot be written ({error.strerror})"

    @property
    def pending(self) -> tuple[str, ...]:
        """The keys of the cases that wait for a trial."""
        with self._lock:
            return tuple(self._pending)

    def table(self) -> tuple[OpRecord, ...]:
        """All that is known for this scope, in the order of keys."""
        with self._lock:
            return tuple(self._records[key] for key in sorted(self._records))

    def run_pending(
        self,
        budget_s: float = math.inf,
        *,
        stop: Callable[[], bool] = lambda: False,
        keys: Container[str] | None = None,
        after: Callable[[], None] = lambda: None,
        meanwhile: Callable[[], bool] = lambda: False,
    ) -> tuple[OpRecord, ...]:
        """Tries the pending cases in child processes; returns those that got their verdicts.

        Args:
            budget_s: no further case is begun after this long.
            stop: asked often; once it is true the trial ends, and its case stays pending.
            keys: of the cases to try, of those that are pending; None for all.
            after: called when a case has got its verdict.
            meanwhile: see TrialRunner.run.

        Where trials cannot be made (the folder cannot be written, the process does not start, another
        process is at it) nothing is launched, and `problem` says why. A case for which memory ran out stays
        pending, and `problem` names it.
        """
        self.problem = ""
        done: list[OpRecord] = []
        if not self.pending:
            return ()
        try:
            with self._cache.trial() as is_ours:
                if is_ours:
                    self._refresh()
                    self._try_pending(done, monotonic() + budget_s, stop, keys, after, meanwhile)
                else:
                    self.problem = "another MLXR is trying kernels now"
        except TrialError as error:
            self.problem = str(error)
        except OSError as error:
            self.problem = f"{self._cache.path} cannot be written ({error.strerror}); kernels stay untried"
        return tuple(done)

    def _refresh(self) -> None:
        """Takes in what other processes found; what one of them left half tried is disabled."""

        def disable(records: dict[str, OpRecord]) -> None:
            records |= {key: verdict.interrupted(record) for key, record in records.items()}

        stored = self._cache.update(disable)
        with self._lock:
            self._records |= stored
            for key, case in list(self._pending.items()):
                record = verdict.barred(verdict.known(case, stored.get(key)), stored.values())
                self._records[key] = record
                if record.is_settled:
                    del self._pending[key]

    def _try_pending(
        self,
        done: list[OpRecord],
        end: float,
        stop: Callable[[], bool],
        keys: Container[str] | None,
        after: Callable[[], None],
        meanwhile: Callable[[], bool],
    ) -> None:
        with self._lock:
            cases = [case for key, case in self._pending.items() if keys is None or key in keys]
            records = [self._records[case.key] for case in cases]
        tasks = [verdict.task(case, record) for case, record in zip(cases, records, strict=True)]
        trial = _Trial(records, self._put)
        outcomes = self._runner.run(tasks, before=trial.begin, stop=stop, meanwhile=meanwhile)
        try:
            for outcome in outcomes:
                if isinstance(outcome, Postponed):
                    self.problem = f"{cases[outcome.index].key}: {outcome.reason}"
                    continue
                record = trial.take(outcome)
                if record is not None:
                    done.append(record)
                    after()
                    if monotonic() > end:
                        break
        finally:
            outcomes.close()
            trial.leave()

    def _put(self, record: OpRecord) -> None:
        """Writes a record down, then lets it be seen."""

        def put(records: dict[str, OpRecord]) -> None:
            records[record.key] = record

        self._cache.update(put)
        with self._lock:
            self._records[record.key] = record
            if record.is_settled:
                self._pending.pop(record.key, None)


class _Trial:
    """The records of cases while these are tried."""

    def __init__(self, records: Sequence[OpRecord], put: Callable[[OpRecord], None]) -> None:
        self._records = list(records)
        self._put = put

    def begin(self, index: int, name: str) -> None:
        """Writes down that a kernel is about to be launched. It stays so until its case has a verdict."""
        candidate = self._candidates(index)[name]
        if candidate.digest:
            trying = replace(candidate, status="trying")
            self._save(index, verdict.with_candidate(self._records[index], trying))

    def take(self, outcome: Checked | Timed | Dropped) -> OpRecord | None:
        """Notes an outcome; returns the record when it now has its verdict."""
        index = outcome.index
        record = self._records[index]
        if isinstance(outcome, Timed):
            return self._save(index, verdict.decided(record, outcome.times))
        if isinstance(outcome, Dropped):
            return self._save(index, verdict.incomparable(record, outcome.reason))
        self._note(index, outcome)
        return None

    def leave(self) -> None:
        """Takes back the marks of cases that nobody will finish now."""
        for index, record in enumerate(self._records):
            trying = [one for one in record.candidates if one.status == "trying"]
            for candidate in trying:
                record = verdict.with_candidate(record, replace(candidate, status="untried", error=None))
            if trying:
                self._save(index, record)

    def _note(self, index: int, checked: Checked) -> None:
        candidate = replace(
            self._candidates(index)[checked.candidate], error=checked.error, reason=checked.reason
        )
        if checked.status:
            candidate = replace(candidate, status=checked.status)
        record = verdict.with_candidate(self._records[index], candidate)
        if checked.status:
            self._save(index, record)
        else:
            self._records[index] = record

    def _candidates(self, index: int) -> Mapping[str, verdict.CandidateRecord]:
        return {one.name: one for one in self._records[index].candidates}

    def _save(self, index: int, record: OpRecord) -> OpRecord:
        self._put(record)
        self._records[index] = record
        return record
