"""The frozen app's program: what it runs in the place of Python, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "packaging" / "frozen_main.py"


def run(*arguments: str, pipe: int | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        env=environment,
        pass_fds=[] if pipe is None else [pipe],
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )


def test_multiprocessings_helper_runs_until_its_pipe_ends() -> None:
    read, write = os.pipe()
    os.write(write, b"UNREGISTER:/mlxr-never-was:shared_memory\n")  # which it complains of, if it runs
    os.close(write)
    done = run("-B", "-c", f"from multiprocessing.resource_tracker import main;main({read})", pipe=read)
    os.close(read)
    assert done.returncode == 0
    assert "KeyError: '/mlxr-never-was'" in done.stderr


def test_no_other_code_is_run() -> None:
    for code in ("print(1)", "from multiprocessing.resource_tracker import main;main(1);print(1)"):
        done = run("-c", code)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: ")


def test_mlxr_runs_with_the_processs_arguments() -> None:
    assert run("--version").stdout.startswith("mlxr ")
