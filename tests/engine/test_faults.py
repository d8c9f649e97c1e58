"""Devices, disks and clocks that fail: only the culprit pays, and nothing wrong is served."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import mlx.core as mx
import pytest

from engine import (
    CacheCounts,
    Cancel,
    EngineSettings,
    Failed,
    Finished,
    Generate,
    ModelUnloaded,
    SamplingParams,
    SsdSettings,
    Stats,
    TextChunk,
    UnloadModel,
)
from engine.kv import page_data, restoring
from engine.kv.arena import Arena
from engine.kv.memory import KVMemory
from engine.kv.page_table import PageTable
from engine.kv.ssd.folder import SsdFolder
from engine.kv.ssd.tier import SsdTier
from engine.requests.failure import GOOD_STEPS
from engine.runner import Runner
from engine.steps.batch import Sent
from engine.steps.parts import Part
from tests.engine.mix import Chances, Mix, samples
from tests.engine.oracle import Checked, checked_model
from tests.engine.watched import Watch, restore_always, watch_memory
from tests.fakes.listener import Listener, running_engine

GREEDY = SamplingParams(temperature=0)
LONG = 90
"""A request of that many tokens is the culprit where one is wanted."""

PLENTY = 1 << 30


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    return checked_model(tmp_path_factory.mktemp("models"), "llama")


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    watch = watch_memory(monkeypatch)
    restore_always(monkeypatch)
    yield watch
    assert not watch.wrong


def prompt(tokens: int, first: int = 3) -> tuple[int, ...]:
    return tuple(3 + (first + 7 * number) % 290 for number in range(tokens))


def settings(folder: Path | None = None, pages: int = 64) -> EngineSettings:
    ssd = None if folder is None else SsdSettings(folder, PLENTY, 0)
    return EngineSettings(page_size=4, kv_pages=pages, prefill_chunk=16, ssd=ssd)


Fails = Callable[[Sequence[Part]], bool]


def break_steps(
    monkeypatch: pytest.MonkeyPatch, fails: Fails, arena: Callable[[], Arena] | None = None
) -> None:
    """Every step of which `fails` says so breaks as on a device that was lost, before or behind its work.

    `arena`: whose pages it spoils.
    """
    step = Runner.step

    def broken(self: Runner, parts: Sequence[Part], tokens: mx.array) -> mx.array:
        if fails(parts):
            if len(parts) % 2:
                step(self, parts, tokens)
            for pool in (*arena().pools.keys, *arena().pools.values) if arena else ():
                pool[:] = mx.nan
            raise RuntimeError("the device was lost")
        return step(self, parts, tokens)

    monkeypatch.setattr(Runner, "step", broken)


def ask_six(listener: Listener) -> dict[str, Generate]:
    """Six requests at once, of which one grows as long as LONG."""
    asked: dict[str, Generate] = {}
    for number in range(6):
        length = LONG - 10 if number == 2 else 10 + 7 * number
        asked[f"r{number}"] = Generate(
            f"r{number}", tokens=prompt(length, number % 3), max_tokens=20, logprobs=0, ignore_eos=True
        )
    with listener.held():
        for command in asked.values():
            listener.submit(command)
    return asked


def assert_right(model: Checked, command: Generate, end: Finished) -> None:
    for sample in samples(end):
        assert len(sample.tokens) == command.max_tokens
        assert not model.oracle.complaint(command, end.prompt_tokens, sample)


def idle(listener: Listener) -> Stats:
    """The engine's pulse when nothing is left to do."""
    listener.submit(Generate("last", tokens=(5,), max_tokens=1, ignore_eos=True))
    listener.end_of("last")
    stats = listener.wait(lambda event: isinstance(event, Stats) and not event.active_id)
    assert isinstance(stats, Stats)
    return stats


@pytest.mark.parametrize("at", ["its prompt", "its answer"])
def test_a_request_that_breaks_every_step_fails_alone(
    at: str, model: Checked, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = LONG - 20 if at == "its prompt" else LONG
    break_steps(monkeypatch, lambda parts: any(part.table.length > bound for part in parts))
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        asked = ask_six(listener)
        ends = {name: listener.end_of(name) for name in asked}
        culprit = ends.pop("r2")
        assert isinstance(culprit, Failed)
        assert (culprit.kind, culprit.refusal) == ("Internal", None)
        assert "the device was lost" in culprit.error
        assert "Traceback" in culprit.detail
        assert "\n" not in culprit.error
        for name, end in ends.items():
            assert isinstance(end, Finished), end
            assert_right(model, asked[name], end)
        assert idle(listener).pages_used == 0


@pytest.mark.parametrize("step", [8, 12, 17, 25])
def test_a_step_that_breaks_once_costs_nobody_a_token(
    step: int, model: Checked, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one request alone it would be the culprit; with several nobody is."""
    broken: list[int] = []

    def fails(parts: Sequence[Part]) -> bool:
        broken.append(len(parts))
        return len(parts) > 1 and len(broken) >= step and -1 not in broken and not broken.append(-1)

    break_steps(monkeypatch, fails, lambda: watch.models[-1].arena)
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        asked = ask_six(listener)
        for name, command in asked.items():
            assert_right(model, command, listener.finished(name))
        assert idle(listener).pages_used == 0
    assert -1 in broken
    pieces = [event for event in listener.events if isinstance(event, TextChunk)]
    for name in asked:
        text = "".join(piece.text for piece in pieces if piece.id == name)
        assert text == listener.finished(name).text


def test_suspects_share_steps_again_when_each_has_gone_on_alone(
    model: Checked, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four answers of forty tokens: run alone to its end, each would be waited for by the next."""
    sizes: list[int] = []

    def fails(parts: Sequence[Part]) -> bool:
        sizes.append(len(parts))
        return len(parts) == 4 and sizes.count(4) == 5

    break_steps(monkeypatch, fails)
    with running_engine(settings(pages=128)) as listener:
        listener.load(model.folder)
        asked = {
            name: Generate(name, tokens=prompt(5, number), max_tokens=40, logprobs=0, ignore_eos=True)
            for number, name in enumerate("abcd")
        }
        with listener.held():
            for command in asked.values():
                listener.submit(command)
        for name, command in asked.items():
            assert_right(model, command, listener.finished(name))
    broken = [place for place, size in enumerate(sizes) if size == 4][4]
    after = sizes[broken + 1 :]
    alone = after.index(4)
    assert set(after[:alone]) == {1}
    assert alone <= 4 * (GOOD_STEPS + 4)  # and what they had computed, in chunks
    assert len(after) < alone + 40


def test_who_only_waits_for_a_suspect_is_no_culprit_and_goes_on(
    model: Checked, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third breaks a step with the others, and again when they wait for it with their pages."""
    longest: list[int] = []

    def fails(parts: Sequence[Part]) -> bool:
        longest.append(max(part.table.length for part in parts))
        return any(part.table.length >= LONG for part in parts)

    break_steps(monkeypatch, fails)
    with running_engine(settings(pages=128)) as listener:
        listener.load(model.folder)
        asked = {
            name: Generate(name, tokens=prompt(length), max_tokens=70, logprobs=0, ignore_eos=True)
            for name, length in (("a", 8), ("b", 16), ("culprit", LONG - 12))
        }
        with listener.held():
            for command in asked.values():
                listener.submit(command)
        failed = listener.failed("culprit")
        assert "the device was lost" in failed.error
        for name in ("a", "b"):
            assert_right(model, asked[name], listener.finished(name))
        assert idle(listener).pages_used == 0
    assert sum(length >= LONG for length in longest) == 2


def test_answers_with_seeds_are_the_same_after_a_step_that_broke(
    model: Checked, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot = SamplingParams(temperature=1.0, seed=5)
    breaks: list[int] = []
    break_steps(monkeypatch, lambda parts: bool(breaks) and len(parts) == breaks[0] and bool(breaks.pop()))
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        found: list[list[tuple[int, ...]]] = []
        for turn in range(2):
            command = Generate("", tokens=prompt(30), max_tokens=16, sampling=hot, ignore_eos=True, n=3)
            with listener.held():
                for name in "ab":
                    listener.submit(replace(command, id=f"{name}{turn}"))
            found.append(
                [sample.tokens for name in "ab" for sample in samples(listener.finished(f"{name}{turn}"))]
            )
            breaks += [6] * (turn == 0)
    assert found[0] == found[1]
    assert not breaks, "no step broke"


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_mix_survives_steps_and_reads_that_break_now_and_then(
    seed: int, model: Checked, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, read = random.Random(seed), Sent.read
    break_steps(monkeypatch, lambda parts: rng.random() < 0.006)

    def broken_read(self: Sent) -> tuple[list[int], list[float]]:
        if rng.random() < 0.006:
            raise RuntimeError("the device timed out")
        return read(self)

    monkeypatch.setattr(Sent, "read", broken_read)
    mix = Mix(model, settings(pages=32), watch, seed, Chances(breaks=True)).play(30)
    finished = [end for end in mix.ends if isinstance(end, Finished)]
    assert len(finished) > 15


@pytest.mark.parametrize(
    ("at", "name"), [(Arena, "read"), (mx, "synchronize")], ids=["pages are read", "its last step ends"]
)
def test_a_device_that_is_lost_at_the_end_of_a_model_does_not_end_the_engine(
    at: object, name: str, model: Checked, watch: Watch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("the device was lost")

    with running_engine(settings(tmp_path)) as listener:
        listener.load(model.folder)
        command = Generate("r", tokens=prompt(40), max_tokens=4, ignore_eos=True)
        listener.submit(command)
        listener.finished("r")
        with monkeypatch.context() as lost:
            lost.setattr(at, name, broken)
            listener.submit(UnloadModel())
            listener.wait(lambda event: isinstance(event, ModelUnloaded))
        listener.load(model.folder, "again")
        listener.submit(Generate("s", tokens=prompt(40), max_tokens=4, ignore_eos=True))
        assert_right(model, command, listener.finished("s"))


def cache_run(model: Checked, folder: Path, count: int = 6) -> tuple[CacheCounts, int]:
    """Run the engine on the cache in `folder`. What it did, and how many tokens of prompts it computed."""
    with running_engine(settings(folder)) as listener:
        listener.load(model.folder)
        computed = 0
        for number in range(count):
            command = Generate(
                f"r{number}",
                tokens=prompt(60, number),
                max_tokens=6,
                logprobs=0,
                ignore_eos=True,
                chat=f"chat {number}",
            )
            listener.submit(command)
            end = listener.finished(command.id)
            assert_right(model, command, end)
            computed += end.timing.prefill_tokens
        counts = idle(listener).cache
        listener.submit(UnloadModel())
        listener.wait(lambda event: isinstance(event, ModelUnloaded))
    return counts, computed


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.safetensors"))


def test_pages_survive_the_engine(model: Checked, watch: Watch, tmp_path: Path) -> None:
    cold, computed = cache_run(model, tmp_path)
    assert (cold.restored_pages, computed) == (0, 6 * 60)
    assert files_of(tmp_path)
    warm, computed = cache_run(model, tmp_path)
    assert computed == 6 * (60 - 56)  # whole pages come back, but never the last token
    assert warm.restored_pages == 6 * 14
    assert warm.quarantined_files == 0


@pytest.mark.parametrize("runs", [1, 2])
def test_a_request_that_is_cancelled_while_its_pages_come_back_leaves_nothing(
    runs: int, model: Checked, watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its prompt is three runs of pages long, and one is read at once."""
    monkeypatch.setattr(page_data, "_RUN_BYTES", 0)
    monkeypatch.setattr(restoring, "BYTES_AT_ONCE", 0)
    monkeypatch.setattr(restoring, "RUNS_AT_ONCE", 1)
    monkeypatch.setattr(restoring, "ALONE", 1)
    restore, read = KVMemory.restore, list[int]()
    command = Generate("long", tokens=prompt(150), max_tokens=4, logprobs=0, ignore_eos=True)

    def restore_and_cancel(
        self: KVMemory, table: PageTable, tokens: Sequence[int], chat: str, *, is_alone: bool
    ) -> int:
        read.append(restore(self, table, tokens, chat, is_alone=is_alone))
        if len(read) == runs:
            listener.submit(Cancel("cancelled"))
        return read[-1]

    with running_engine(settings(tmp_path)) as listener:
        listener.load(model.folder)
        listener.submit(command)
        assert_right(model, command, listener.finished("long"))
        listener.submit(UnloadModel())
        monkeypatch.setattr(KVMemory, "restore", restore_and_cancel)
        listener.load(model.folder, "again")
        listener.submit(replace(command, id="cancelled"))
        end = listener.finished("cancelled")
        assert (end.reason, end.tokens, len(read)) == ("cancelled", (), runs)
        assert idle(listener).pages_used == 0
        listener.submit(replace(command, id="after"))
        after = listener.finished("after")
        assert_right(model, command, after)
        assert after.timing.cached_tokens == 148


def flip(file: Path, rng: random.Random) -> None:
    data = bytearray(file.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def cut(file: Path, rng: random.Random) -> None:
    os.truncate(file, rng.randrange(file.stat().st_size))


def swap(file: Path, rng: random.Random) -> None:
    """The content of another file of the cache under this name."""
    others = [other for other in files_of(file.parent) if other != file]
    file.write_bytes(rng.choice(others).read_bytes())


@pytest.mark.parametrize("damage", [flip, cut, swap])
def test_damaged_files_are_not_served_but_removed_and_counted(
    damage: Callable[[Path, random.Random], None], model: Checked, watch: Watch, tmp_path: Path
) -> None:
    rng = random.Random(3)
    cache_run(model, tmp_path)
    victims = files_of(tmp_path)[::2]
    for file in victims:
        damage(file, rng)
    counts, _ = cache_run(model, tmp_path)
    assert counts.quarantined_files == len(victims)
    counts, computed = cache_run(model, tmp_path)
    assert counts.quarantined_files == 0
    assert computed == 6 * (60 - 56)


def test_a_folder_that_is_none_costs_only_the_cache(model: Checked, watch: Watch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here already")
    counts, computed = cache_run(model, tmp_path / "file")
    assert (counts.ssd_bytes, computed) == (0, 6 * 60)
    assert (tmp_path / "file").read_text() == "here already"


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_writes_that_fail_cost_only_the_cache(
    number: int, model: Checked, watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = SsdFolder.write, list[Path]()

    def broken(self: SsdFolder, path: Path, buffers: Sequence[memoryview]) -> None:
        written.append(path)
        if len(written) > 2:
            raise OSError(number, os.strerror(number), str(path))
        write(self, path, buffers)

    monkeypatch.setattr(SsdFolder, "write", broken)
    cache_run(model, tmp_path)
    assert len(files_of(tmp_path)) == 2
    counts, computed = cache_run(model, tmp_path)
    assert 0 < counts.restored_pages < 6 * 14
    assert computed < 6 * 60


def test_reads_that_fail_cost_only_the_cache(
    model: Checked, watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_run(model, tmp_path)

    def broken(path: Path, identity: object, into: object) -> object:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr("engine.kv.ssd.files.read_run", broken)
    counts, computed = cache_run(model, tmp_path)
    assert (counts.restored_pages, computed) == (0, 6 * 60)


def test_a_full_disk_and_one_that_cannot_be_written_cost_only_the_cache(
    model: Checked, watch: Watch, small_disk: Path
) -> None:
    cache_run(model, small_disk, count=12)
    stored = files_of(small_disk)
    assert 0 < len(stored) < 12
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    counts, computed = cache_run(model, small_disk, count=12)
    assert counts.restored_pages > 0
    assert computed < 12 * 60
    assert files_of(small_disk) == stored


def test_a_clock_that_jumps_changes_nothing(
    model: Checked, watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(9)

    def jumping() -> float:
        return rng.choice((0.0, 1.0, 1e9, 2e9, 4e9)) + rng.random()

    monkeypatch.setattr(time, "time", jumping)
    monkeypatch.setattr("engine.loading.model.SsdTier", partial(SsdTier, clock=jumping))
    chances = Chances(reload=0.15)
    mix = Mix(model, settings(tmp_path / "kv", pages=24), watch, 9, chances).play(25)
    assert mix.seen["restored_pages"] > 0
