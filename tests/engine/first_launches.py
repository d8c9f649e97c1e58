"""A GPU that computes nothing, and notes what it would have compiled."""

from __future__ import annotations

from collections.abc import Hashable

import mlx.core as mx

from metal.executors import CONSTANT_BELOW, Launcher, Request, Signature
from metal.source import KernelSource


class FirstLaunches:
    """An executor whose kernels yield zeros, once somebody asks for them.

    Attributes:
        compiled: kernel names by text, template values and kinds of arrays, in the order of their first
            launches: each is another compile.
    """

    def __init__(self) -> None:
        self.compiled: dict[Hashable, str] = {}

    def build(self, source: KernelSource, signature: Signature) -> Launcher:
        """See `Executor.build`."""

        def launch(request: Request) -> list[mx.array]:
            variant = (
                source.digest("metal"),
                tuple(sorted((name, str(value)) for name, value in request.template.items())),
                tuple((str(array.dtype), array.size < CONSTANT_BELOW) for array in request.inputs),
                tuple(str(output.dtype) for output in request.outputs),
            )
            self.compiled.setdefault(variant, source.name)
            return [mx.zeros(output.shape, output.dtype) for output in request.outputs]

        return launch
