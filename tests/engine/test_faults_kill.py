"""An engine that is killed while it serves and spills: the next one starts clean, and is right."""

from __future__ import annotations

import json
import random
import select
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from engine import Generate, Sample, SamplingParams
from tests.engine.oracle import checked_model
from tests.engine.serving_child import CAP, answer, beginnings, settings
from tests.engine.watched import restore_always
from tests.fakes.listener import running_engine

KILLS = 30
GREEDY = Generate("", sampling=SamplingParams(temperature=0))


def serve_and_die(model: Path, folder: Path, seed: int, answers: int) -> list[dict[str, list[int]]]:
    """A child serves so many answers, and is killed a moment later. What it had answered by then."""
    command = [sys.executable, "-m", "tests.engine.serving_child", str(model), str(folder), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == b"ready\n", child.stderr.read()
        lines = [child.stdout.readline() for _ in range(answers)]
        gone, _, _ = select.select([child.stderr], [], [], random.Random(seed).uniform(0, 0.05))
        child.kill()
        lines += child.stdout.read().split(b"\n")
        assert not gone, child.stderr.read()
    return [json.loads(line) for line in lines[:-1]]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_next_engine_starts_clean_wherever_the_last_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore_always(monkeypatch)
    model, cache = checked_model(tmp_path, "llama"), tmp_path / "cache"
    rng, seen, begin = random.Random(5), Counter[str](), time.monotonic()
    for kill in range(KILLS):
        answers = serve_and_die(model.folder, cache, kill, rng.randrange(5))
        for told in answers:
            sample = Sample("length", "", tuple(told["tokens"]), None)
            assert not model.oracle.complaint(GREEDY, told["prompt"], sample), (kill, told)
            assert told["damaged"] == 0
            seen["restored"] += int(str(told["restored"]))
        seen["answers"] += len(answers)
        seen["leftovers"] += len(list(cache.rglob(".*.tmp")))
        assert sum(file.stat().st_size for file in cache.rglob("*.safetensors")) <= CAP
    with running_engine(settings(cache)) as listener:
        listener.load(model.folder)
        leftovers = [path for path in cache.rglob(".*.tmp") if path.name != ".ledger.json.tmp"]
        assert leftovers == []
        for number, prompt in enumerate(beginnings()):
            told = answer(listener, f"last {number}", prompt)
            sample = listener.finished(f"last {number}")
            checked = Sample("length", "", sample.tokens, None)
            assert not model.oracle.complaint(GREEDY, prompt, checked)
            assert told["damaged"] == 0
            seen["restored at last"] += int(str(told["restored"]))
    print(f"\n{KILLS} kills in {time.monotonic() - begin:.0f} s: {dict(seen)}")
    assert seen["answers"] > KILLS
    assert seen["restored"] > 0
    assert seen["restored at last"] > 0
