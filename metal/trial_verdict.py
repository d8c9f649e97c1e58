"""What follows from a trial: who is tried, who is disabled, who won. Pure functions of records."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from metal.trial_case import Case
from metal.trial_messages import Task
from metal.trial_record import FAILED, CandidateRecord, OpRecord

MARGIN = 0.02
"""The share of the built-in's time that a kernel has to save."""

INTERRUPTED = "was being tried when MLXR or the machine stopped"


def digests(case: Case) -> dict[str, str]:
    """The digest of each of the case's candidates by name."""
    return {one.name: one.digest for one in case.contenders}


def known(case: Case, record: OpRecord | None) -> OpRecord:
    """What `record`, perhaps of other kernel texts, says about the case as it is now.

    A verdict for all of its candidates stands. Else what failed with the same text has failed, and the rest
    is untried; MLX's built-in runs.
    """
    if record is not None and record.is_settled and record.fits(digests(case)):
        return record
    old = {one.name: one for one in record.candidates} if record is not None else {}
    candidates: list[CandidateRecord] = []
    for one in case.contenders:
        before = old.get(one.name)
        has_failed = before is not None and before.digest == one.digest and before.status in FAILED
        candidates.append(before if before and has_failed else CandidateRecord(one.name, one.digest))
    return _closed(OpRecord(case.key, candidates[0].name, tuple(candidates)))


def barred(record: OpRecord, others: Iterable[OpRecord]) -> OpRecord:
    """`record` without trials of kernels that hung or died at another shape: each may cost the screen."""
    deadly = {
        (one.name, one.digest): f"{one.status} at {other.key}: {one.reason}"
        for other in others
        if other.key != record.key
        for one in other.candidates
        if one.digest and one.status in ("hangs", "died")
    }

    def judge(one: CandidateRecord) -> CandidateRecord:
        reason = deadly.get((one.name, one.digest))
        return replace(one, status="died", reason=reason) if reason and one.status == "untried" else one

    return _closed(replace(record, candidates=tuple(judge(one) for one in record.candidates)))


def interrupted(record: OpRecord) -> OpRecord:
    """`record` with what nobody finished trying disabled."""
    return replace(
        record,
        candidates=tuple(
            replace(one, status="died", reason=INTERRUPTED) if one.status == "trying" else one
            for one in record.candidates
        ),
    )


def disabled(record: OpRecord, digests: Container[str], reason: str) -> OpRecord:
    """`record` without the kernels of these texts; where one of them ran, MLX's built-in does."""

    def judge(one: CandidateRecord) -> CandidateRecord:
        return replace(one, status="died", reason=reason) if one.digest and one.digest in digests else one

    builtin, *kernels = (judge(one) for one in record.candidates)
    if any(one.name == record.chosen and one.status in FAILED for one in kernels):
        builtin = replace(builtin, status="chosen", reason=f"in place of {record.chosen}, which is off")
        return _closed(OpRecord(record.key, builtin.name, (builtin, *kernels)))
    return replace(record, candidates=(builtin, *kernels))


def task(case: Case, record: OpRecord) -> Task:
    """The trial of the case's candidates that have not failed before."""
    return Task(case.spec, tuple(one.name for one in record.candidates if one.status not in FAILED))


def with_candidate(record: OpRecord, changed: CandidateRecord) -> OpRecord:
    """`record` with the candidate of that name replaced."""
    return replace(
        record, candidates=tuple(changed if one.name == changed.name else one for one in record.candidates)
    )


def incomparable(record: OpRecord, reason: str) -> OpRecord:
    """The verdict where nothing can be compared: the built-in runs, and why."""
    builtin, *kernels = record.candidates
    left = [k if k.status in FAILED else replace(k, status="unsupported", reason=reason) for k in kernels]
    return _closed(OpRecord(record.key, builtin.name, (builtin, *left)))


def decided(record: OpRecord, times: Mapping[str, float]) -> OpRecord:
    """The verdict from microseconds by name, of the candidates that agreed.

    The fastest kernel is chosen if it takes at most 1 - `MARGIN` of the built-in's time.
    """
    builtin = record.candidates[0]
    if builtin.status in FAILED:
        return incomparable(record, f"nothing to compare with: MLX's own {builtin.reason}")
    if builtin.name not in times:
        return _closed(record)
    fastest = min(times, key=lambda name: times[name])
    limit = (1 - MARGIN) * times[builtin.name]
    chosen = fastest if times[fastest] <= limit else builtin.name

    def judge(one: CandidateRecord) -> CandidateRecord:
        if one.name not in times:
            return one
        reason = _reason(one.name, chosen, builtin.name, times)
        status = "chosen" if one.name == chosen else "slower"
        return replace(one, status=status, microseconds=times[one.name], reason=reason)

    return OpRecord(record.key, chosen, tuple(judge(one) for one in record.candidates))


def _reason(name: str, chosen: str, builtin: str, times: Mapping[str, float]) -> str:
    share = times[name] / times[builtin]
    if name == chosen:
        return "no kernel is faster" if name == builtin else f"{1 / share:.2f} times as fast as MLX's"
    if chosen != builtin:
        return f"slower than {chosen}"
    if share < 1:
        return f"{1 - share:.1%} faster than MLX's; at least {MARGIN:.0%} is asked"
    return f"takes {share:.2f} times as long as MLX's"


def _closed(record: OpRecord) -> OpRecord:
    """`record`, with the built-in chosen where no kernel is left to try."""
    builtin, *kernels = record.candidates
    if builtin.status in FAILED or any(one.status not in FAILED for one in kernels):
        return record
    reason = "no kernel works here" if kernels else "there is no kernel for it"
    return OpRecord(record.key, builtin.name, (replace(builtin, status="chosen", reason=reason), *kernels))
