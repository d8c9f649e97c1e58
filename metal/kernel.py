"""A kernel as its launcher sees it: built for one executor, called with arrays by name, launches counted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import mlx.core as mx

from metal.errors import KernelError
from metal.executors import Executor, Output, Request, Signature, Size, TemplateValue
from metal.source import KERNELS, Feature, load_source

LANES = 32
MAX_THREADS = 1024


class Kernel:
    """One `.metal` file on one executor.

    Args:
        name: the file's name, without its ending.
        inputs, outputs: the names of its arrays, in the order of its signature.
        executor: what builds and runs it.
        launches: gets one added under `name` for each launch.
        in_place: inputs that the kernel writes.
        features: names the text may test with `#if`, and their values; part of the compiled text.
        folder: where the file lies.

    Raises:
        KernelError: the file is missing, or its text says something that MLX would misread.
    """

    def __init__(
        self,
        name: str,
        *,
        inputs: Sequence[str],
        outputs: Sequence[str],
        executor: Executor,
        launches: Counter[str],
        in_place: Sequence[str] = (),
        features: Mapping[str, Feature] | None = None,
        folder: Path = KERNELS,
    ) -> None:
        self.name = name
        self._signature = Signature(tuple(inputs), tuple(outputs), tuple(in_place))
        self._launch = executor.build(load_source(name, folder=folder, features=features), self._signature)
        self._launches = launches

    def __call__(
        self,
        inputs: Mapping[str, mx.array],
        *,
        grid: Size,
        threadgroup: Size,
        outputs: Sequence[Output],
        template: Mapping[str, TemplateValue],
        init_value: float | None = None,
    ) -> list[mx.array]:
        """Launches the kernel; returns its outputs, lazy where the executor is a GPU.

        Args:
            inputs: the arrays by name, none empty, none without dimensions.
            grid: threads in all, (x, y, z); a multiple of `threadgroup`.
            threadgroup: threads in a threadgroup; in all a multiple of 32, to 1024.
            outputs: shape and dtype of each output.
            template: values the text names: integers, booleans, dtypes. Each new set is another compile.
            init_value: what outputs hold before the launch; without it, anything.

        Raises:
            KernelError: names, sizes or the grid do not fit.
        """
        self._check_arrays(inputs, outputs)
        self._check_grid(grid, threadgroup)
        ordered = tuple(inputs[name] for name in self._signature.inputs)
        made = self._launch(Request(ordered, tuple(outputs), template, grid, threadgroup, init_value))
        self._launches[self.name] += 1
        return made

    def _check_arrays(self, inputs: Mapping[str, mx.array], outputs: Sequence[Output]) -> None:
        if set(inputs) != set(self._signature.inputs):
            raise KernelError(f"kernel {self.name} takes {self._signature.inputs}, not {tuple(inputs)}")
        if len(outputs) != len(self._signature.outputs):
            raise KernelError(
                f"kernel {self.name} makes {self._signature.outputs}, not {len(outputs)} outputs"
            )
        for name, array in inputs.items():
            if array.ndim == 0 or array.size == 0:
                raise KernelError(
                    f"kernel {self.name}: input '{name}' of shape {array.shape} is empty or a scalar"
                )

    def _check_grid(self, grid: Size, threadgroup: Size) -> None:
        threads = threadgroup[0] * threadgroup[1] * threadgroup[2]
        if threads % LANES or not LANES <= threads <= MAX_THREADS:
            raise KernelError(
                f"kernel {self.name}: a threadgroup of {threadgroup}; it takes a multiple of 32, to 1024"
            )
        if any(total <= 0 or total % size for total, size in zip(grid, threadgroup, strict=True)):
            raise KernelError(
                f"kernel {self.name}: the grid {grid} is no multiple of the threadgroup {threadgroup}"
            )
