"""Loading a GGUF file whose blocks kernels read takes the file's own size, on the way too."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.engine.loading.gguf.load_cost import load_cost, write_file


@pytest.mark.long
@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("g++") is None, reason="needs /proc and the emulated executor"
)
def test_a_file_takes_its_own_size_in_memory(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    write_file(file, layers=6)
    size, cost = file.stat().st_size, load_cost(file)
    assert size > 140 << 20
    assert cost.active <= 1.03 * size
    assert cost.peak <= 1.03 * size
    assert cost.resident_peak <= 1.03 * size + (40 << 20)  # beside the weights: tokenizer, kernels' texts
