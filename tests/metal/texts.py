"""An executor that runs nothing: compilers of targets that are absent read the text of each launch."""

import shutil
from pathlib import Path

import mlx.core as mx
import pytest

from metal.emulator import CONSTANT_BELOW, Parameter, Variant
from metal.emulator.address_spaces import check_address_spaces, find_clang
from metal.executors import Launcher, Request, Signature
from metal.source import KernelSource
from tests.metal.test_cuda import compile_cuda, cuda_text
from tests.metal.test_metal_text import check, metal_text


def _name(dtype: mx.Dtype) -> str:
    return str(dtype).removeprefix("mlx.core.")


def _targets() -> set[str]:
    """What there are compilers for."""
    by_clang = {"opencl", "metal"} if find_clang() is not None else set[str]()
    return by_clang | ({"cuda"} if shutil.which("nvcc") is not None else set[str]())


class TextExecutor:
    """Reads texts as OpenCL C++ and Metal with clang, and as CUDA with nvcc, as far as they are there."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._targets = folder, _targets()
        self._read = set[str]()

    def check_read(self) -> None:
        """Every compiler that is there has accepted a launch; without one the test is skipped."""
        if not self._targets:
            pytest.skip("needs clang-14 or nvcc")
        assert self._read == self._targets

    def build(self, source: KernelSource, signature: Signature) -> Launcher:
        """See `Executor.build`; outputs are zeros."""

        def launch(request: Request) -> list[mx.array]:
            inputs = dict(zip(signature.inputs, request.inputs, strict=True))
            outputs = dict(zip(signature.outputs, request.outputs, strict=True))
            constant = {name for name, array in inputs.items() if array.size < CONSTANT_BELOW}
            made = {name: _name(output.dtype) for name, output in outputs.items()}
            taken = {name: _name(array.dtype) for name, array in inputs.items()}
            template = {
                name: _name(value) if isinstance(value, mx.Dtype) else value
                for name, value in request.template.items()
            }
            if "metal" in self._targets:
                parameters = [Parameter(name, taken[name], is_constant=name in constant) for name in taken]
                parameters += [Parameter(name, made[name], is_output=True) for name in made]
                check_address_spaces(Variant(source, tuple(parameters), tuple(template.items())))
                marked = {name: f"={dtype}" if name in constant else dtype for name, dtype in taken.items()}
                check(metal_text(source, marked | {n: f">{d}" for n, d in made.items()}, template))
                self._read |= {"opencl", "metal"}
            if "cuda" in self._targets:
                arrays = taken | {name: f">{dtype}" for name, dtype in made.items()}
                compile_cuda(cuda_text(source, arrays, template), self._folder)
                self._read.add("cuda")
            return [mx.zeros(output.shape, output.dtype) for output in request.outputs]

        return launch
