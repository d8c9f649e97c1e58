"""A small model on disk and a running engine, for tests that speak to the engine as its callers do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from mmap import PAGESIZE
from pathlib import Path

import mlx.core as mx
import pytest

from engine import EngineSettings
from tests.fakes.listener import Listener, running_engine
from tests.fakes.on_the_spot import OnTheSpot
from tests.fakes.random_model import write_random_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama named "tiny"."""
    return write_random_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def listener() -> Iterator[Listener]:
    """An engine that prefills in chunks of 16, and what it emits."""
    with running_engine(EngineSettings(prefill_chunk=16)) as listener:
        yield listener


@pytest.fixture
def forgotten_on_the_spot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines remove deleted chats' files before they go on, so that a test can look."""
    monkeypatch.setattr("engine.rest.forgetting.ThreadPoolExecutor", OnTheSpot)


@pytest.fixture(params=["emulated", "cuda", "metal"])
def executor_name(request: pytest.FixtureRequest) -> str:
    """Each executor with kernels that this machine has."""
    here = {
        "emulated": sys.platform == "linux" and shutil.which("g++") is not None,
        "cuda": mx.cuda.is_available(),
        "metal": mx.metal.is_available(),
    }
    if not here[request.param]:
        pytest.skip(f"this machine has no {request.param} executor")
    return request.param


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 128 KB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "none", folder], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def two() -> Iterator[set[int]]:
    """Two processors, on which alone this process's main thread, and who it starts, may run."""
    usual = os.sched_getaffinity(0)
    if len(usual) < 2:
        pytest.skip("needs two processors")
    chosen = set(sorted(usual)[:2])
    os.sched_setaffinity(0, chosen)
    yield chosen
    os.sched_setaffinity(0, usual)


@pytest.fixture
def slow_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but what the first token needs is compiled at load."""
    monkeypatch.setattr("engine.rest.warm_up.AT_LOAD_S", 0.0)
    monkeypatch.setattr("engine.rest.warm_up.A_MOMENT_S", 0.0)


@pytest.fixture
def short_prompts_have_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of their own beside answers, however little time they would take without."""
    monkeypatch.setattr("engine.pacing.prompt_chunks.WORTH_ASIDE_S", 0.0)
    monkeypatch.setattr("engine.cpu.left_out._WORTH", PAGESIZE)
