"""compute-sanitizer over every kernel on an NVIDIA GPU: `python -m tests.metal.gpu_sanitizer [--dry]`.

First kernels with planted bugs run, through the same process and executor as the real ones: a tool that
misses its bug proves nothing. Then variants of every kernel run, and nothing may be found. Only kernels of
this project are watched: MLX calls them `custom_kernel_…`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.metal.variants import selection
from tests.metal.variants_cover import Variant

CORPUS = Path(__file__).parent / "corpus"
WATCHED = "kns=custom_kernel"  # compute-sanitizer's --kernel-name: a part of the name
DONE = "variants agree"
SUMMARIES = {
    "memcheck": r"ERROR SUMMARY: (\d+) error",
    "racecheck": r"RACECHECK SUMMARY: (\d+) hazard",
    "synccheck": r"ERROR SUMMARY: (\d+) error",
}


@dataclass(frozen=True, slots=True)
class Run:
    """A process under one tool.

    Attributes:
        tool: of compute-sanitizer.
        work: "clean" for the kernels, else the body of `corpus/` with the bug.
    """

    tool: str
    work: str

    @property
    def must_find(self) -> bool:
        """Whether the tool must find something, or else nothing."""
        return self.work != "clean"


# Two lanes writing one element in one instruction (the body `race`) are no hazard to racecheck (H200).
PLANTED = (Run("memcheck", "overrun_write"), Run("racecheck", "missing_barrier"))
CLEAN = (Run("memcheck", "clean"), Run("racecheck", "clean"), Run("synccheck", "clean"))


def few(each: int) -> list[Variant]:
    """The first `each` variants of every kernel in the pairwise selection."""
    seen: Counter[object] = Counter()
    chosen: list[Variant] = []
    for variant in selection(full=False):
        seen[variant["kernel"]] += 1
        if seen[variant["kernel"]] <= each:
            chosen.append(variant)
    return chosen


def command(run: Run, options: argparse.Namespace) -> list[str]:
    """The command line of a run."""
    child = [
        sys.executable,
        "-m",
        "tests.metal.gpu_sanitizer",
        "--work",
        run.work,
        "--each",
        str(options.each),
    ]
    watched = ["--kernel-name", options.watched] if options.watched else []
    return [options.sanitizer, "--tool", run.tool, *watched, "--print-limit", "20", *child]


def judged(run: Run, text: str, code: int) -> tuple[str, bool]:
    """What came of a run, in words, and whether that is right."""
    summary = re.search(SUMMARIES[run.tool], text)
    if summary is None:
        return f"no summary; exit {code}", False
    found = int(summary[1])
    if run.must_find:
        return f"found {found}" if found else "did not find its bug", found > 0
    if DONE not in text or code != 0:
        return f"found {found}, but the kernels did not get through; exit {code}", False
    return f"found {found}", found == 0


def run_all(runs: Sequence[Run], options: argparse.Namespace) -> bool:
    """Runs them at the same time, prints a line each, and the output of what went wrong."""
    began, is_right = time.perf_counter(), True
    environment = {**os.environ, "MLX_USE_CUDA_GRAPHS": "0"}  # each launch is one of its own
    processes = [
        subprocess.Popen(
            command(run, options),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for run in runs
    ]
    for run, process in zip(runs, processes, strict=True):
        try:
            text, _ = process.communicate(timeout=options.timeout)
            words, is_good = judged(run, text, process.returncode)
        except subprocess.TimeoutExpired:
            process.kill()
            text, _ = process.communicate()
            words, is_good = f"no end within {options.timeout} s", False
        seconds = time.perf_counter() - began
        verdict = "ok" if is_good else "FAILED"
        print(f"{verdict:6} {run.tool:10} {run.work:16} {words} ({seconds:.0f} s)", flush=True)
        if not is_good or options.verbose:
            print(text)
        is_right = is_right and is_good
    return is_right


def work(name: str, each: int) -> None:
    """What runs under a tool: a planted bug, or variants that are compared with float64."""
    import mlx.core as mx

    mx.set_cache_limit(0)  # memory that MLX keeps for reuse is still memory to a tool
    if name != "clean":
        _planted(name)
        mx.synchronize()
        return
    from tests.metal.variants_run import open_executor, run

    executor = open_executor("cuda")
    for variant in few(each):
        print(variant, flush=True)
        run(variant, executor)
    print(f"{len(few(each))} {DONE}")


def _planted(name: str) -> None:
    """Launches a body of `corpus/`; the overrun is far beyond what MLX rounds an array's size up to."""
    import mlx.core as mx

    from metal.executors import CudaExecutor, Output
    from metal.kernel import Kernel

    threads = 1024 if name == "overrun_write" else 64
    kernel = Kernel(
        name,
        inputs=("x", "h", "small"),
        outputs=("y",),
        executor=CudaExecutor(),
        launches=Counter(),
        folder=CORPUS,
    )
    (y,) = kernel(
        {"x": mx.ones(threads), "h": mx.zeros(threads, mx.float16), "small": mx.zeros(4)},
        grid=(threads, 1, 1),
        threadgroup=(threads, 1, 1),
        outputs=[Output((64,), mx.float32)],
        template={},
    )
    mx.eval(y)


def main() -> int:
    """1 when a tool missed its bug, or found one."""
    parser = argparse.ArgumentParser(prog="python -m tests.metal.gpu_sanitizer")
    parser.add_argument("--dry", action="store_true", help="say what would be run")
    parser.add_argument("--each", type=int, default=2, help="variants of each kernel")
    parser.add_argument("--sanitizer", default=shutil.which("compute-sanitizer") or "compute-sanitizer")
    parser.add_argument("--watched", default=WATCHED, help="--kernel-name of compute-sanitizer; '' for all")
    parser.add_argument("--timeout", type=int, default=90, help="seconds of a process")
    parser.add_argument("--verbose", action="store_true", help="the output of what went well, too")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.each)
        return 0
    if options.dry:
        print(*(" ".join(command(run, options)) for run in (*PLANTED, *CLEAN)), sep="\n")
        print(*few(options.each), sep="\n")
        return 0
    if shutil.which(options.sanitizer) is None:
        print("error: there is no compute-sanitizer; it comes with the CUDA toolkit (--sanitizer PATH)")
        return 1
    return 0 if run_all(PLANTED, options) and run_all(CLEAN, options) else 1


if __name__ == "__main__":
    sys.exit(main())
