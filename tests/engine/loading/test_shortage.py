"""Memory that runs out while a model is loaded is told as that, never as damage of its files."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.errors import ModelError
from engine.loading.gguf.header import GgufTensor
from engine.loading.gguf.tensor_data import Stretch, read_rows
from engine.loading.shortage import enough_memory, is_of_memory
from tests.fakes.random_model import write_random_model

CHILD = """
import resource, sys
from pathlib import Path
from engine.errors import ModelError
from engine.loading.model import load_model, open_model
from engine.settings import EngineSettings

def limit():  # to one megabyte more than is taken now
    status = Path("/proc/self/status").read_text().split()
    taken = 1024 * int(status[status.index("VmSize:") + 1])
    resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 20), -1))

small, large, begins, cache = map(Path, sys.argv[1:])
load_model(small, EngineSettings(cache=cache), lambda done, total: None)  # MLX has its threads now
files = None
if str(begins) == "weights":
    files = open_model(large)
else:
    limit()

def progress(done, total):
    if not done and files is not None:
        limit()

try:
    load_model(large, EngineSettings(cache=cache), progress, files)
except ModelError as error:
    print(error)
"""


def said(*arguments: object) -> str:
    command = [sys.executable, "-c", CHILD, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="others do not limit what a process takes")
@pytest.mark.parametrize("begins", ["open", "weights"])
def test_a_model_that_there_is_no_memory_for_is_not_called_damaged(begins: str, tmp_path: Path) -> None:
    small = write_random_model(tmp_path / "small")
    large = write_random_model(
        tmp_path / "large", hidden_size=1024, intermediate_size=8192, num_hidden_layers=1
    )
    assert said(small, large, begins, tmp_path / "cache") == (
        f"memory ran out while {large} was loaded; close other programs, or use a smaller model or one of "
        "fewer bits"
    )


def test_memory_that_runs_out_while_rows_are_put_in_order_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows"
    file.write_bytes(bytes(64 * 64))
    rows = Stretch.whole(GgufTensor("a", (64, 16), "F32", None, file, 0, 64 * 64), 64, 32)

    def none_left(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(np, "empty", none_left)
    with pytest.raises(MemoryError):
        read_rows([rows])


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("std::bad_alloc"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("[malloc] Unable to allocate 4194304 bytes."),
        RuntimeError("[METAL] Command buffer execution failed: Insufficient Memory (00000008)"),
        RuntimeError("cudaMallocAsync(&data, size, stream) failed: out of memory"),
        RuntimeError("Resource temporarily unavailable"),
        RuntimeError(
            "[metal::malloc] Attempting to allocate 48736917632 bytes which is greater than the maximum "
            "allowed buffer size of 30150672384 bytes."
        ),
    ],
)
def test_what_says_that_memory_ran_out_becomes_one_line(error: Exception) -> None:
    with (
        pytest.raises(ModelError, match="memory ran out while model was loaded"),
        enough_memory(Path("model")),
    ):
        raise error


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "Input/output error"),
        RuntimeError("[read] Unable to read from file."),
        ModelError("a tensor is missing; it would take out of memory"),
        ValueError("out of memory"),
    ],
)
def test_what_says_something_else_stays_what_it_is(error: Exception) -> None:
    assert not is_of_memory(error)
    with pytest.raises(type(error)) as raised, enough_memory(Path("model")):
        raise error
    assert raised.value is error
