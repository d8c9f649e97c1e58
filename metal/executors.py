"""The three ways to run a kernel's text: MLX's Metal, MLX's CUDA, and the host emulator."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal.emulator import CONSTANT_BELOW, Emulator, Geometry, HostArray, LaunchReport, Parameter, Variant
from metal.errors import KernelError
from metal.source import KernelSource

Size = tuple[int, int, int]
TemplateValue = int | bool | mx.Dtype


@dataclass(frozen=True, slots=True)
class Output:
    """An array that a launch makes."""

    shape: tuple[int, ...]
    dtype: mx.Dtype


@dataclass(frozen=True, slots=True)
class Request:
    """One launch. `grid` counts threads, as in MLX."""

    inputs: tuple[mx.array, ...]
    outputs: tuple[Output, ...]
    template: Mapping[str, TemplateValue]
    grid: Size
    threadgroup: Size
    init_value: float | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """The names of a kernel's arrays; `in_place` are inputs that it writes."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    in_place: tuple[str, ...] = ()


Launcher = Callable[[Request], list[mx.array]]
_Key = tuple[KernelSource, str, Signature]  # with the text of its features: 1 and 1.0 are equal
_Dtypes = tuple[tuple[tuple[mx.Dtype, bool], ...], tuple[mx.Dtype, ...]]  # inputs', with what is `constant`
_MLXKernel = Callable[..., list[mx.array]]
_CUDA_TYPES = {
    mx.float32: "float",
    mx.float16: "__half",
    mx.bfloat16: "__nv_bfloat16",
    mx.int32: "int32_t",
    mx.uint32: "uint32_t",
}


class Executor(Protocol):
    """Builds a kernel's text into something that launches."""

    def build(self, source: KernelSource, signature: Signature) -> Launcher:
        """A launcher of `source`; compiling happens at its first call with new template values.

        A text is prepared once: a model's layers, and a trial's weights, ask for the same again and again.
        """
        ...


class MetalExecutor:
    """Apple GPUs. MLX compiles the text with Metal's compiler at the first call."""

    def __init__(self) -> None:
        self._built: dict[_Key, Launcher] = {}

    def build(self, source: KernelSource, signature: Signature) -> Launcher:
        """See `Executor.build`."""
        key = (source, source.defines, signature)
        if key not in self._built:
            self._built[key] = self._launcher(source, signature)
        return self._built[key]

    def _launcher(self, source: KernelSource, signature: Signature) -> Launcher:
        """Calls MLX's kernel under a name for each set of dtypes.

        MLX finds compiled kernels by name and template alone, though the dtypes of the arrays and whether an
        input is `constant` are part of the text that it compiles.
        """
        stem, header = f"{source.name}_{source.digest('metal')}", source.header("metal")
        body, kernels = source.body_for("metal"), dict[_Dtypes, _MLXKernel]()

        def launch(request: Request) -> list[mx.array]:
            dtypes = _dtypes(request)
            if dtypes not in kernels:
                name = f"{stem}_{_suffix(dtypes)}"
                kernels[dtypes] = _made(mx.fast.metal_kernel, name, signature, header, body)
            return kernels[dtypes](template=list(request.template.items()), **_given(request))

        return launch


class CudaExecutor:
    """NVIDIA GPUs. MLX compiles the text with NVRTC at the first call.

    At every launch MLX hashes the text it was given, at about 3 GB/s: 20 KB would cost more than the launch.
    And it finds what was compiled by names that it puts together of the kernel's and all template values. So
    the text goes to files named by its hash, template values included, and MLX is given two lines that
    include them, a short name and no template.

    Args:
        folder: where the files go.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(tempfile.gettempdir()) / f"mlxr-{os.getuid()}" / "cuda"
        self._built: dict[_Key, Launcher] = {}

    def build(self, source: KernelSource, signature: Signature) -> Launcher:
        """See `Executor.build`. Raises KernelError when the files cannot be written."""
        key = (source, source.defines, signature)
        if key not in self._built:
            self._built[key] = self._launcher(source, signature)
        return self._built[key]

    def _launcher(self, source: KernelSource, signature: Signature) -> Launcher:
        head = self._included(f"{source.name}_{source.digest('cuda')}.head.h", source.header("cuda"))
        body = source.body_for("cuda")

        def make(dtypes: _Dtypes, template: Mapping[str, TemplateValue]) -> _MLXKernel:
            text = "".join(_constant(*named) for named in template.items()) + body
            own = hashlib.sha256(f"{head}\0{text}\0{_suffix(dtypes)}".encode()).hexdigest()[:12]
            included = self._included(f"{source.name}_{own}.body.h", text)
            return _made(mx.fast.cuda_kernel, f"{source.name}_{own}", signature, head, included)

        kernels: dict[tuple[_Dtypes, tuple[tuple[str, TemplateValue], ...]], _MLXKernel] = {}

        def launch(request: Request) -> list[mx.array]:
            key = _dtypes(request), tuple(request.template.items())
            if key not in kernels:
                kernels[key] = make(key[0], request.template)
            return kernels[key](**_given(request))

        return launch

    def _included(self, name: str, text: str) -> str:
        """A line that includes `text`, written whole or not at all."""
        path = self._folder / name
        try:
            if not path.exists() or path.read_text() != text:
                self._folder.mkdir(parents=True, exist_ok=True)
                part = path.with_name(f"{name}.{os.getpid()}.part")
                part.write_text(text)
                part.replace(path)
        except OSError as error:
            raise KernelError(f"the text of a kernel cannot be written to {path} ({error})") from error
        return f'#include "{path}"\n'


def _made(make: Callable[..., object], name: str, signature: Signature, header: str, body: str) -> _MLXKernel:
    """MLX's kernel: `header` stands before it, `body` between its braces."""
    names = {"input_names": signature.inputs, "output_names": signature.outputs}
    return cast("_MLXKernel", make(name=name, source=body, header=header, **names))


def _constant(name: str, value: TemplateValue) -> str:
    """A template's value as MLX writes it into a kernel for CUDA (custom_kernel.cpp of its CUDA backend)."""
    if isinstance(value, mx.Dtype):
        return f"using {name} = {_CUDA_TYPES[value]};\n"
    is_bool = isinstance(value, bool)
    return f"constexpr {'bool' if is_bool else 'int'} {name} = {str(value).lower()};\n"


def _dtypes(request: Request) -> _Dtypes:
    inputs = tuple([(array.dtype, array.size < CONSTANT_BELOW) for array in request.inputs])
    return inputs, tuple([output.dtype for output in request.outputs])


def _suffix(dtypes: _Dtypes) -> str:
    """What a kernel's name ends with: those of its arrays, and which inputs are `constant`."""
    inputs, outputs = dtypes
    names = [f"{_name(dtype)}{'c' if is_constant else ''}" for dtype, is_constant in inputs]
    return "_".join([*names, *map(_name, outputs)])


def _given(request: Request) -> dict[str, object]:
    """What MLX is given of a launch, but for its template."""
    return {
        "inputs": list(request.inputs),
        "grid": request.grid,
        "threadgroup": request.threadgroup,
        "output_shapes": [output.shape for output in request.outputs],
        "output_dtypes": [output.dtype for output in request.outputs],
        "init_value": request.init_value,
    }


class EmulatedExecutor:
    """This machine's processor. Each launch is run to its end at the call; `observe` gets what it did."""

    def __init__(
        self, emulator: Emulator, observe: Callable[[str, LaunchReport], None] = lambda _name, _report: None
    ) -> None:
        self._emulator = emulator
        self._observe = observe

    def build(self, source: KernelSource, signature: Signature) -> Launcher:
        """See `Executor.build`."""

        def launch(request: Request) -> list[mx.array]:
            made = [_blank(output, request.init_value) for output in request.outputs]
            arrays = _input_arrays(signature, request.inputs) + [
                HostArray(name, _view(array), is_writable=True)
                for name, array in zip(signature.outputs, made, strict=True)
            ]
            variant = _variant(source, signature, request)
            report = self._emulator.launch(variant, arrays, _geometry(request))
            self._observe(source.name, report)
            return [array.view(output.dtype) for array, output in zip(made, request.outputs, strict=True)]

        return launch


def _geometry(request: Request) -> Geometry:
    groups = [threads // size for threads, size in zip(request.grid, request.threadgroup, strict=True)]
    return Geometry((groups[0], groups[1], groups[2]), request.threadgroup)


def _variant(source: KernelSource, signature: Signature, request: Request) -> Variant:
    inputs = [
        Parameter(name, _name(array.dtype), is_constant=array.size < CONSTANT_BELOW)
        for name, array in zip(signature.inputs, request.inputs, strict=True)
    ]
    outputs = [
        Parameter(name, _name(output.dtype), is_output=True)
        for name, output in zip(signature.outputs, request.outputs, strict=True)
    ]
    template = tuple(
        (name, _name(value) if isinstance(value, mx.Dtype) else value)
        for name, value in request.template.items()
    )
    return Variant(source, (*inputs, *outputs), template)


def _input_arrays(signature: Signature, inputs: Sequence[mx.array]) -> list[HostArray]:
    arrays: list[HostArray] = []
    for name, array in zip(signature.inputs, inputs, strict=True):
        in_place = name in signature.in_place
        data = _view(array if in_place else mx.contiguous(array))
        if not data.flags.c_contiguous:
            raise KernelError(f"input '{name}' is written in place and must be row-contiguous")
        arrays.append(HostArray(name, data, array.size < CONSTANT_BELOW, in_place))
    return arrays


def _blank(output: Output, init_value: float | None) -> mx.array:
    """Storage for an output; without an initial value it holds 0xFF bytes: what nobody writes shows."""
    array = mx.zeros(output.shape, output.dtype)
    if init_value is not None:
        array = mx.full(output.shape, init_value, output.dtype)
    storage = array.view(mx.uint16) if output.dtype == mx.bfloat16 else array
    mx.eval(storage)
    if init_value is None:
        _view(storage).reshape(-1).view(np.uint8)[...] = 0xFF
    return storage


def _view(array: mx.array) -> NDArray[np.generic]:
    """The array's own memory, evaluated; bfloat16, which numpy lacks, as uint16."""
    if array.dtype == mx.bfloat16:
        array = array.view(mx.uint16)
    mx.eval(array)
    return cast("NDArray[np.generic]", np.array(array, copy=False))


def _name(dtype: mx.Dtype) -> str:
    return str(dtype).removeprefix("mlx.core.")
