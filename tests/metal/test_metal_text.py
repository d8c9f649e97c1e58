"""Kernels with the header that Apple's compiler gets, read by clang against declarations of Metal's library.

No Metal compiler runs on Linux. This finds names and types that do not fit; the `metal` executor tests
the rest on a Mac.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from metal.emulator.address_spaces import find_clang
from metal.source import KernelSource, load_source
from tests.metal.catalogue import BODIES, BODY_ARRAYS, body_arrays, body_template

CLANG = find_clang()
pytestmark = pytest.mark.skipif(CLANG is None, reason="needs clang: apt install clang-14")

STUB = Path(__file__).parent / "metal_stub"
METAL_TYPES = {
    **{"float32": "float", "float16": "half", "bfloat16": "bfloat"},
    **{"uint16": "ushort", "uint32": "uint", "int32": "int"},
}
STORAGE = ("float32", "float16", "bfloat16")
POSITIONS = (
    *("thread_position_in_grid", "thread_position_in_threadgroup", "threadgroup_position_in_grid"),
    *("threads_per_threadgroup", "threadgroups_per_grid"),
)
INDICES = (
    *("thread_index_in_threadgroup", "thread_index_in_simdgroup"),
    *("simdgroup_index_in_threadgroup", "simdgroups_per_threadgroup"),
)


def metal_text(source: KernelSource, arrays: Mapping[str, str], template: Mapping[str, int | str]) -> str:
    """The kernel as MLX completes it. `arrays` as in the catalogue, with `=` before a constant's dtype."""
    arguments = [
        f"{'' if dtype[0] == '>' else 'const '}{'constant' if dtype[0] == '=' else 'device'} "
        f"{METAL_TYPES[dtype.lstrip('>=')]}* {name}"
        for name, dtype in arrays.items()
    ]
    places = [f"uint3 {name}" for name in POSITIONS] + [f"uint {name}" for name in INDICES]
    values = "".join(
        f"using {name} = {METAL_TYPES[value]};\n"
        if isinstance(value, str)
        else f"constexpr int {name} = {value};\n"
        for name, value in template.items()
    )
    return (
        f'#include "metal_stub.h"\n{source.header("metal")}__kernel void {source.name}('
        f"{', '.join(arguments + places)}) {{\n{values}#line {source.body_line} "
        f'"{source.name}.metal"\n{source.body_for("metal")}\n}}\n'
    )


def check(text: str) -> None:
    assert CLANG is not None
    command = [
        CLANG,
        "-x",
        "clcpp",
        "-cl-std=clc++2021",
        "-target",
        "spir64",
        "-fsyntax-only",
        f"-I{STUB}",
        "-",
    ]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("residual", [0, 1])
@pytest.mark.parametrize("chunk", [1, 4])
@pytest.mark.parametrize("dtype", STORAGE)
def test_rms_norm(dtype: str, chunk: int, residual: int) -> None:
    added = {"residual": dtype, "total": f">{dtype}"} if residual else {}
    arrays = {"x": dtype, "weight": "float32", "y": f">{dtype}", **added}
    source = load_source("rms_norm", features={"CHUNK": chunk, "RESIDUAL": residual, "EPSILON": 1e-5})
    check(metal_text(source, arrays, {"T": dtype, "WIDTH": 1000, "SIMDGROUPS": 8, "VECTORS": 4}))


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("name", BODY_ARRAYS)
def test_the_dialect(name: str, dtype: str) -> None:
    check(metal_text(load_source(name, folder=BODIES), body_arrays(name, dtype), body_template(name, dtype)))


def test_every_body_is_read() -> None:
    assert {path.stem for path in BODIES.glob("*.metal")} == BODY_ARRAYS.keys()


def test_a_misspelt_name_is_seen() -> None:
    source = load_source("lanes", folder=BODIES)
    wrong = metal_text(source, body_arrays("lanes", "float32"), {}).replace(
        "simd_shuffle_down(", "simd_shuffle_dwn("
    )
    with pytest.raises(AssertionError, match=r"lanes\.metal:\d+.*simd_shuffle_dwn"):
        check(wrong)
