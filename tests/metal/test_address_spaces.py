"""Every kernel of the project is good OpenCL C++ too: its pointers keep to their address spaces."""

import pytest

from metal.emulator import Parameter, Variant
from metal.emulator.address_spaces import check_address_spaces, find_clang
from metal.source import load_source

pytestmark = pytest.mark.skipif(find_clang() is None, reason="needs clang: apt install clang-14")


@pytest.mark.parametrize("residual", [0, 1])
@pytest.mark.parametrize("chunk", [1, 4])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_rms_norm(dtype: str, chunk: int, residual: int) -> None:
    parameters = [
        Parameter("x", dtype),
        *([Parameter("residual", dtype)] if residual else []),
        Parameter("weight", "float32"),
        Parameter("y", dtype, is_output=True),
        *([Parameter("total", dtype, is_output=True)] if residual else []),
    ]
    source = load_source("rms_norm", features={"CHUNK": chunk, "RESIDUAL": residual, "EPSILON": 1e-5})
    template = (("T", dtype), ("WIDTH", 1000), ("SIMDGROUPS", 8), ("VECTORS", 4))
    check_address_spaces(Variant(source, tuple(parameters), template))
