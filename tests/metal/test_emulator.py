"""The emulator's promises: memory starts poisoned, order is seeded, builds are cached, traffic is counted."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from metal.emulator import Emulator, LaunchReport, Mode
from metal.errors import KernelBuildError
from metal.executors import EmulatedExecutor, Output
from metal.kernel import Kernel

RunBody = Callable[..., tuple[mx.array, LaunchReport]]


def write(folder: Path, name: str, body: str) -> None:
    (folder / f"{name}.metal").write_text(
        f"#pragma body\nconst uint i = thread_index_in_threadgroup;\n{body}"
    )


def launch(
    folder: Path, name: str, emulator: Emulator, *, threads: int = 64, groups: int = 1, size: int = 64
) -> tuple[np.ndarray, LaunchReport]:
    reports: list[LaunchReport] = []
    kernel = Kernel(
        name,
        inputs=["x"],
        outputs=["y"],
        executor=EmulatedExecutor(emulator, lambda _name, report: reports.append(report)),
        launches=Counter(),
        folder=folder,
    )
    (y,) = kernel(
        {"x": mx.arange(size).astype(mx.float32)},
        grid=(threads * groups, 1, 1),
        threadgroup=(threads, 1, 1),
        outputs=[Output((size,), mx.float32)],
        template={},
    )
    return np.array(y), reports[0]


@pytest.mark.parametrize("mode", [Mode.PLAIN, Mode.SANITIZED])
def test_threadgroup_memory_starts_as_nan(run_body: RunBody, mode: Mode) -> None:
    y, _ = run_body("unwritten", mode, mx.arange(64).astype(mx.float32))
    assert np.isnan(np.array(y)[63])
    assert np.array_equal(np.array(y)[:63], np.arange(63))


def test_threadgroup_memory_is_poisoned_for_every_threadgroup(tmp_path: Path, kernel_cache: Path) -> None:
    body = (
        "threadgroup_array(float, shared, 64);\nif (threadgroup_position_in_grid.x == 0) shared[i] = 1.0f;\n"
    )
    write(tmp_path, "leftover", f"{body}y[thread_position_in_grid.x] = shared[i];\n")
    for seed in range(3):
        y, _ = launch(tmp_path, "leftover", Emulator(kernel_cache, seed=seed), groups=2, size=128)
        assert (y[:64] == 1).all()
        assert np.isnan(y[64:]).all()


def test_the_order_of_threadgroups_and_threads_follows_the_seed(tmp_path: Path, kernel_cache: Path) -> None:
    # Wrong on purpose: the last to write wins, so that the order shows.
    write(tmp_path, "last", "y[0] = float(thread_position_in_grid.x);\n")
    winners = [
        float(launch(tmp_path, "last", Emulator(kernel_cache, seed=seed), groups=8)[0][0])
        for seed in (0, 1, 2, 3, 0, 1, 2, 3)
    ]
    assert winners[:4] == winners[4:]
    assert len({int(winner) // 64 for winner in winners}) > 1
    assert len({int(winner) % 64 for winner in winners}) > 1


@pytest.mark.parametrize("threads", [32, 1024])
def test_all_threads_of_a_threadgroup_meet(tmp_path: Path, kernel_cache: Path, threads: int) -> None:
    write(
        tmp_path,
        "reverse",
        "threadgroup_array(float, shared, 1024);\n"
        "for (int round = 0; round < 3; ++round) {\n"
        "  shared[i] = x[i] + float(round);\n"
        "  threadgroup_barrier(mem_flags::mem_threadgroup);\n"
        "  y[i] = shared[threads_per_threadgroup.x - 1 - i];\n"
        "  threadgroup_barrier(mem_flags::mem_threadgroup);\n"
        "}\n",
    )
    y, report = launch(
        tmp_path, "reverse", Emulator(kernel_cache, Mode.CHECKED), threads=threads, size=threads
    )
    assert np.array_equal(y, np.arange(threads)[::-1] + 2)
    assert report.barriers == 6
    assert report.threadgroup_bytes == 4096


def test_traffic_counts_bytes_and_lines(tmp_path: Path, kernel_cache: Path) -> None:
    # Every thread reads one element of a line of its own, half of the threads the first element as well.
    write(tmp_path, "strided", "y[i] = x[32 * i] + (i < 32 ? x[0] : 0.0f);\n")
    _, report = launch(tmp_path, "strided", Emulator(kernel_cache, Mode.CHECKED), size=2048)
    read, written = report.traffic["x"], report.traffic["y"]
    assert (read.bytes_read, read.lines_read, read.bytes_written) == ((64 + 32) * 4, 64, 0)
    assert (written.bytes_written, written.lines_written, written.bytes_read) == (256, 2, 0)


def test_a_build_is_found_again_and_a_changed_text_is_not(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    write(tmp_path, "one", "y[i] = x[i];\n")
    launch(tmp_path, "one", Emulator(cache))
    built = {path: path.stat().st_mtime_ns for path in cache.iterdir()}
    launch(tmp_path, "one", Emulator(cache))
    assert {path: path.stat().st_mtime_ns for path in cache.iterdir()} == built
    write(tmp_path, "one", "y[i] = x[i] + 1.0f;\n")
    y, _ = launch(tmp_path, "one", Emulator(cache))
    assert np.array_equal(y, np.arange(64) + 1)
    assert len(list(cache.iterdir())) == len(built) + 1


def test_a_compiler_error_names_the_line_of_the_body(tmp_path: Path, kernel_cache: Path) -> None:
    write(tmp_path, "typo", "y[i] = xx[i];\n")
    with pytest.raises(KernelBuildError, match=r"typo\.metal:3:.*xx"):
        launch(tmp_path, "typo", Emulator(kernel_cache))


@pytest.mark.parametrize("mode", [Mode.PLAIN, Mode.SANITIZED])
def test_outputs_start_as_nan(tmp_path: Path, kernel_cache: Path, mode: Mode) -> None:
    write(tmp_path, "most", "if (i != 3) y[i] = x[i];\n")
    y, _ = launch(tmp_path, "most", Emulator(kernel_cache, mode))
    assert np.isnan(y).tolist() == [i == 3 for i in range(64)]
