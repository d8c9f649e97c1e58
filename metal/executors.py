"""The three ways to run a kernel's text: MLX's Metal, MLX's CUDA, and the host emulator."""

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
        text = _Text(source.header("metal"), source.body_for("metal"))
        return _mlx_launcher(mx.fast.metal_kernel, f"{source.name}_{source.digest('metal')}", text, signature)


class CudaExecutor:
    """NVIDIA GPUs. MLX compiles the text with NVRTC at the first call.

    At every launch MLX hashes the text it was given, at about 3 GB/s: 20 KB would cost more than the launch.
    So the text goes to files, named by its hash, and MLX is given two lines that include them.

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
        name = f"{source.name}_{source.digest('cuda')}"
        parts = (("head", source.header("cuda")), ("body", source.body_for("cuda")))
        text = _Text(*(self._included(f"{name}.{part}.h", text) for part, text in parts))
        return _mlx_launcher(mx.fast.cuda_kernel, name, text, signature)

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


@dataclass(frozen=True, slots=True)
class _Text:
    """What MLX compiles: before the kernel, and between its braces."""

    header: str
    body: str


def _mlx_launcher(make: Callable[..., object], stem: str, text: _Text, signature: Signature) -> Launcher:
    """Calls MLX's kernel under a name for each set of dtypes.

    MLX's CUDA back-end finds compiled kernels by name and template alone, though the dtypes of the arrays and
    whether an input is `constant` are part of the text that it compiles.
    """
    kernels: dict[_Dtypes, Callable[..., list[mx.array]]] = {}

    def kernel_for(request: Request) -> Callable[..., list[mx.array]]:
        inputs = tuple([(array.dtype, array.size < CONSTANT_BELOW) for array in request.inputs])
        outputs = tuple([output.dtype for output in request.outputs])
        if (inputs, outputs) not in kernels:
            names = [f"{_name(dtype)}{'c' if is_constant else ''}" for dtype, is_constant in inputs]
            made = make(
                name="_".join([stem, *names, *map(_name, outputs)]),
                input_names=signature.inputs,
                output_names=signature.outputs,
                source=text.body,
                header=text.header,
            )
            kernels[inputs, outputs] = cast("Callable[..., list[mx.array]]", made)
        return kernels[inputs, outputs]

    def launch(request: Request) -> list[mx.array]:
        return kernel_for(request)(
            inputs=list(request.inputs),
            template=list(request.template.items()),
            grid=request.grid,
            threadgroup=request.threadgroup,
            output_shapes=[output.shape for output in request.outputs],
            output_dtypes=[output.dtype for output in request.outputs],
            init_value=request.init_value,
        )

    return launch


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
