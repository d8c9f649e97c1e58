"""Launchers that forget the order: what the recorder must find."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import mlx.core as mx

from metal.executors import Executor, Launcher, Request, Signature
from metal.source import KernelSource

Way = Literal["to take it", "to hand it on"]


@dataclass(slots=True)
class Forgetful:
    """Launch number `at` of `kernel` takes no fence, or hands on copies of what it made."""

    kernel: str
    way: Way
    at: int = 0
    launches: int = 0

    def launcher(self, launch: Launcher, source: KernelSource, signature: Signature) -> Launcher:
        """`launch`, with the fault."""
        if source.name != self.kernel:
            return launch

        def forget(request: Request) -> list[mx.array]:
            self.launches += 1
            if self.launches != self.at + 1:
                return launch(request)
            if self.way == "to hand it on":
                return [array + 0 for array in launch(request)]
            place, inputs = signature.inputs.index("fence"), list(request.inputs)
            inputs[place] = mx.zeros_like(inputs[place])
            return launch(replace(request, inputs=tuple(inputs)))

        return forget

    def executor(self, executor: Executor) -> Executor:
        """`executor`, with the fault."""
        return _Forgetting(executor, self)


@dataclass(frozen=True, slots=True)
class _Forgetting:
    executor: Executor
    fault: Forgetful

    def build(self, source: KernelSource, signature: Signature) -> Launcher:
        return self.fault.launcher(self.executor.build(source, signature), source, signature)
