"""A conversion's memory stays within its bound, far below the model it converts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.bench.shapes import BenchShape, write_shape
from engine.convert.convert import MOST_MEMORY, RUN_BYTES
from resources.guide.evaluate import MODEL
from tests.app.cli.conftest import environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a peak that can be reset")

SMALL = BenchShape("llama", 1, 128, 256, 2, 1, 3072, 512)

CHILD = r"""
import re, sys
from pathlib import Path
import engine
from engine.convert import convert
from engine.convert.settings import ConvertSettings

def peak():
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) * 1024

folder, quant, run = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
convert.RUN_BYTES = run
convert.convert_model(folder / "small", folder / "warm", ConvertSettings(quant))
Path("/proc/self/clear_refs").write_text("5")  # the peak is from now on: proc(5)
before = peak()
done = convert.convert_model(folder / "large", folder / "done", ConvertSettings(quant))
print(peak() - before, done.source_bytes, done.result_bytes)
"""


def growth(folder: Path, shape: BenchShape, quant: str, run: int) -> tuple[int, int, int]:
    """Bytes that converting a model of `shape` adds to a process that has converted a small one; sizes."""
    for name, each in (("small", SMALL), ("large", shape)):
        (folder / name).mkdir()
        write_shape(folder / name, each, "none", 512, MODEL)
    arguments = [sys.executable, "-c", CHILD, str(folder), quant, str(run)]
    said = subprocess.run(arguments, env=environment(), check=True, capture_output=True, text=True)
    grown, source, result = map(int, said.stdout.split())
    return grown, source, result


def test_a_model_larger_than_the_bound_passes_through(tmp_path: Path) -> None:
    """With runs, and so a bound, of a 32nd, to be quick."""
    shape = BenchShape("llama", 2, 512, 10240, 8, 4, 3072, 512)
    grown, source, result = growth(tmp_path, shape, "q8", RUN_BYTES // 32)
    assert min(source, result) > 3 * MOST_MEMORY // 32
    assert grown <= MOST_MEMORY // 32


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("quant", ["q4", "nvfp4"])
def test_the_bound_holds_as_it_is_stated(quant: str, tmp_path: Path) -> None:
    """nvfp4 is the hungriest on a CPU."""
    shape = BenchShape("llama", 1, 2048, 5632, 32, 4, 32000, 512)
    grown, source, _ = growth(tmp_path, shape, quant, RUN_BYTES)
    assert source > 1.3 * MOST_MEMORY
    assert grown <= MOST_MEMORY
