"""The text that MLX would give to NVIDIA's compiler, compiled by nvcc: this needs no GPU.

What it computes is tested by the other files, on the `cuda` executor, where there is a GPU.
"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from metal.source import KernelSource, load_source
from tests.metal.catalogue import BODIES, BODY_ARRAYS, body_arrays, body_template

NVCC = shutil.which("nvcc")
pytestmark = pytest.mark.skipif(NVCC is None, reason="needs nvcc (CUDA toolkit)")

CUDA_TYPES = {
    "float32": "float",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "int32": "int32_t",
}

# MLX's own text before a kernel, and its namespace below (mlx/backend/cuda/custom_kernel.cpp).
BEFORE = (
    "#include <cooperative_groups.h>\n#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n#include <cstdint>\n"
)


def cuda_text(source: KernelSource, arrays: Mapping[str, str], template: Mapping[str, int | str]) -> str:
    """The translation unit for one kernel; `arrays` gives dtypes, those of outputs after a `>`."""
    arguments = ", ".join(
        f"{'' if dtype.startswith('>') else 'const '}{CUDA_TYPES[dtype.lstrip('>')]}* {name}"
        for name, dtype in arrays.items()
    )
    values = "".join(
        f"using {name} = {CUDA_TYPES[value]};\n"
        if isinstance(value, str)
        else f"constexpr int {name} = {value};\n"
        for name, value in template.items()
    )
    return (
        f"{BEFORE}{source.header('cuda')}namespace mlx::core::cu {{\nnamespace cg = cooperative_groups;\n"
        f"__global__ void {source.name}({arguments}) {{\n{values}{source.body_for('cuda')}\n}}\n}}\n"
    )


def compile_cuda(text: str, folder: Path) -> None:
    """Compiles for the device alone, as MLX does: the host's part takes two thirds of nvcc's time."""
    assert NVCC is not None
    (folder / "kernel.cu").write_text(text)
    command = [NVCC, "-arch=sm_90", "-std=c++17", "-cubin", "-Werror=all-warnings"]
    command += ["-o", "kernel.cubin", "kernel.cu"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("dtype", "chunk", "residual"),
    [
        ("float16", 1, 1),
        pytest.param("float32", 4, 0, marks=pytest.mark.long),
        pytest.param("bfloat16", 4, 1, marks=pytest.mark.long),
    ],
)
def test_rms_norm_is_cuda(tmp_path: Path, dtype: str, chunk: int, residual: int) -> None:
    source = load_source("rms_norm", features={"CHUNK": chunk, "RESIDUAL": residual, "EPSILON": 1e-5})
    inputs = {"x": dtype, "residual": dtype, "weight": "float32"}
    arrays = {**inputs, "y": f">{dtype}", "total": f">{dtype}"}
    compile_cuda(
        cuda_text(source, arrays, {"T": dtype, "WIDTH": 1000, "SIMDGROUPS": 8, "VECTORS": 4}), tmp_path
    )


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, "float16") for name in BODY_ARRAYS),
        *(
            pytest.param(name, dtype, marks=pytest.mark.long)
            for name in ("vectors", "matrices", "some")
            for dtype in ("float32", "bfloat16")
        ),
    ],
)
def test_the_dialect_is_cuda(tmp_path: Path, name: str, dtype: str) -> None:
    compile_cuda(
        cuda_text(load_source(name, folder=BODIES), body_arrays(name, dtype), body_template(name, dtype)),
        tmp_path,
    )
