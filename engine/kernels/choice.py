"""Which kernels run for a model on this machine: those that measurement chose, or all that were asked for."""

from __future__ import annotations

from collections.abc import Mapping

from engine.kernels.cases import build_case
from metal.executors import Executor
from metal.selection import Selection
from metal.trial_case import CaseSpec, Value
from metal.trial_record import FAILED, OpRecord
from metal.trial_scope import ExecutorName


class KernelChoice:
    """Answers for one op at a time, each once: an object holds its answers as they were when it was asked.

    Attributes:
        name, executor: what runs the kernels.
        selection: the verdicts of this machine; what has none there is put on its list of trials.
        is_forced: whether kernels run before they are proven, because their executor was asked for.
        notes: ops that do not run on kernels because these failed here, and why.
    """

    def __init__(
        self, name: ExecutorName, executor: Executor, selection: Selection, *, is_forced: bool
    ) -> None:
        self.name: ExecutorName = name
        self.executor, self.selection, self.is_forced = executor, selection, is_forced
        self.notes: dict[str, None] = {}
        self._answers: dict[tuple[str, tuple[tuple[str, Value], ...]], tuple[str | None, OpRecord]] = {}

    def kernel(self, spec: CaseSpec) -> str | None:
        """The candidate of ours that runs; None where MLX's own operation does.

        Raises KernelError for an op that there is no such case of.
        """
        return self._answer(spec)[0]

    def proven(self, spec: CaseSpec) -> str | None:
        """The candidate of ours that was measured to be the fastest; None without one, or without a trial.

        Raises KernelError for an op that there is no such case of.
        """
        record = self._answer(spec)[1]
        return None if record.chosen == record.candidates[0].name else record.chosen

    def why(self, spec: CaseSpec) -> str:
        """The reason for that, for people."""
        chosen, record = self._answer(spec)
        if self.is_forced and chosen is not None:
            return "asked for"
        if not record.is_settled:
            return "kernels are tried here when nobody waits for an answer; until then MLX's own run"
        name = chosen or record.candidates[0].name
        return next(one.reason for one in record.candidates if one.name == name)

    def untried(self, spec: CaseSpec) -> str | None:
        """The op's key where MLX's own operation runs only until a trial; None where that is settled."""
        chosen, record = self._answer(spec)
        return record.key if chosen is None and not record.is_settled else None

    def digests(self) -> frozenset[str]:
        """Of the texts of the kernels that run, as far as it was asked."""
        return frozenset(
            one.digest
            for chosen, record in self._answers.values()
            for one in record.candidates
            if one.name == chosen and one.digest
        )

    def again(self) -> KernelChoice:
        """The same question put anew, after trials."""
        return KernelChoice(self.name, self.executor, self.selection, is_forced=self.is_forced)

    def answers(self) -> Mapping[str, str | None]:
        """All that was asked so far: the kernel that runs by the op's key, None for MLX's own."""
        return {record.key: chosen for chosen, record in self._answers.values()}

    def _answer(self, spec: CaseSpec) -> tuple[str | None, OpRecord]:
        key = (spec.op, tuple(sorted(spec.params.items())))
        if key not in self._answers:
            record = self.selection.record(build_case(spec, self.executor))
            chosen = _chosen(record, is_forced=self.is_forced)
            self._answers[key] = (chosen, record)
            failed = next((one for one in record.candidates[1:] if one.status in FAILED), None)
            if chosen is None and failed is not None:
                self.notes[f"{record.key} runs on MLX's own: {failed.name} is off ({failed.reason})"] = None
        return self._answers[key]


def _chosen(record: OpRecord, *, is_forced: bool) -> str | None:
    """The kernel that runs. One that is asked for need not be proven or fast, but must not have failed."""
    builtin, *ours = record.candidates
    if record.chosen != builtin.name:
        return record.chosen
    sound = [one for one in ours if one.status not in FAILED]
    if not is_forced or not sound:
        return None
    timed = [one for one in sound if one.microseconds is not None]
    return min(timed, key=lambda one: one.microseconds or 0.0).name if timed else sound[0].name
