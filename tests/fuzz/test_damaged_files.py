"""Files of every kind, damaged in every way: the model answers, or one line says which file and what."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import pytest

from tests.fuzz.bases import BASES
from tests.fuzz.catalogue import endless, listed
from tests.fuzz.mutant import Mutant
from tests.fuzz.opener import Opener

SAMPLE = 100
LONG_LISTED, LONG_RANDOM = 4_000, 120
"""Mutants of each model: in CI; in the long run, of those that know formats, and of each random stream."""


def attack(opener: Opener, model: Path, mutants: Iterable[Mutant]) -> tuple[Counter[str], list[str]]:
    """Put each mutant in the place of its file and open the model. What came of them, and what went wrong."""
    counts, findings = Counter[str](), list[str]()
    fresh = model.parent / "fresh"
    for mutant in mutants:
        file = model / mutant.file
        was = file.read_bytes()
        fresh.write_bytes(mutant.data)
        fresh.replace(file)  # a new file: the child may still have the one before mapped
        outcome = opener.open(model)
        complaint = outcome.complaint(model, mutant.file if mutant.field else None, mutant.field)
        fresh.write_bytes(was)
        fresh.replace(file)
        counts[f"{mutant.kind}: {outcome.kind}"] += 1
        if complaint:
            findings.append(f"{mutant.kind} of {mutant.file}, {mutant.what}: {complaint}")
    return counts, findings


@pytest.mark.parametrize("model", BASES, indirect=True, ids=BASES)
def test_a_sound_model_answers(opener: Opener, model: Path) -> None:
    assert opener.open(model).kind == "answered"


@pytest.mark.parametrize("model", BASES, indirect=True, ids=BASES)
def test_a_damaged_file_is_one_clear_line(opener: Opener, model: Path) -> None:
    rng = random.Random(20_26)
    structured = rng.sample(list(listed(model)), SAMPLE // 2)
    streams = endless(model, rng)
    blind = [next(rng.choice(streams)) for _ in range(SAMPLE // 2)]
    counts, findings = attack(opener, model, [*structured, *blind])
    assert not findings, "\n".join(findings)
    assert sum(count for kind, count in counts.items() if kind.endswith("refused")) > SAMPLE // 2


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("model", BASES, indirect=True, ids=BASES)
def test_thousands_of_damaged_files_are_one_clear_line_each(
    request: pytest.FixtureRequest, opener: Opener, model: Path
) -> None:
    """More than 20,000 over all models; what came of each kind of damage is printed."""
    rng = random.Random(5)
    known = list(listed(model))
    counts, findings = attack(opener, model, rng.sample(known, min(LONG_LISTED, len(known))))
    for stream in endless(model, rng):
        more, found = attack(opener, model, islice(stream, LONG_RANDOM))
        counts, findings = counts + more, findings + found
    lines = [f"  {kind}: {count:,}" for kind, count in sorted(counts.items())]
    print("\n".join([f"\n{request.node.name}: {counts.total():,} mutants", *lines]))
    assert not findings, f"{len(findings)}:\n" + "\n".join(findings[:40])
