"""Goes through decode steps part by part and waits for each: LinearOps, and an Attend, that take times."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import mlx.core as mx

from engine.bench.step_profile import StepPart
from engine.kernels.kernels import Kernels
from engine.kernels.launch_names import HOST
from engine.layers.attention import Attend, AttentionLayer
from engine.layers.host_ops import HostOps
from engine.layers.linear import Embedding, Linear
from engine.layers.norm import RMSNorm
from engine.layers.ops import LinearOps
from engine.steps.graph import operations

Array = Any
"""MLX's, or in the host's memory."""


@dataclass(slots=True)
class _Call:
    """A place in a step: what is computed there, what that launches, and the seconds it took each time."""

    name: str
    form: str
    launches: Counter[str]
    seconds: list[float] = field(default_factory=list[float])


class TimedParts:
    """LinearOps that hand on to others, and wait for what they give.

    The first step only compiles and counts launches; what each part of a later one took is noted. Where steps
    are compiled as a whole, each part is compiled by itself: MLX then fuses its operations as it does there.
    """

    def __init__(self, ops: LinearOps[Any], kernels: Kernels | None, *, is_lazy: bool) -> None:
        """`ops`: of the model, which runs on `kernels`; `is_lazy`: see Runner."""
        self._ops = ops
        self._ours = Counter[str]() if kernels is None else kernels.launches
        self._is_lazy = is_lazy
        self._compiles = kernels is not None and kernels.is_lazy and kernels.is_in_place
        self._compiled: dict[tuple[str, object], Callable[..., Array]] = {}
        self._calls: list[_Call] = []
        self._place, self._is_counting = 0, True

    def next_step(self) -> None:
        """All parts of a step were gone through."""
        self._place, self._is_counting = 0, False

    def parts(self, empty: float) -> tuple[StepPart, ...]:
        """What was found, in the order of a step; `empty` seconds are taken off each call."""
        alike: dict[tuple[str, str], list[_Call]] = {}
        for call in self._calls:
            alike.setdefault((call.name, call.form), []).append(call)
        return tuple(_part(calls, empty) for calls in alike.values())

    def embed(self, ids: mx.array, embedding: Embedding) -> Array:
        """See LinearOps."""
        return self._linear("embed", embedding, partial(self._ops.embed, embedding=embedding), ids)

    def project(self, x: Array, norm: RMSNorm, linear: Linear) -> Array:
        """See LinearOps."""
        return self._linear("project", linear, partial(self._ops.project, norm=norm, linear=linear), x)

    def gated(self, x: Array, norm: RMSNorm, linear: Linear) -> Array:
        """See LinearOps."""
        return self._linear("gated", linear, partial(self._ops.gated, norm=norm, linear=linear), x)

    def add(self, residual: Array, x: Array, linear: Linear) -> Array:
        """See LinearOps."""
        return self._linear("add", linear, partial(self._ops.add, linear=linear), residual, x)

    def logits(self, x: Array, norm: RMSNorm, linear: Linear) -> Array:
        """See LinearOps."""
        return self._linear("logits", linear, partial(self._ops.logits, norm=norm, linear=linear), x)

    def attend(self, attend: Attend[Any]) -> Attend[Any]:
        """`attend`, timed."""

        def timed(layer: AttentionLayer, qkv: Array) -> Array:
            shape = layer.shape
            form = f"{shape.heads}/{shape.kv_heads}×{shape.head_dim}"
            form += f", window {shape.window}" if shape.window else ""
            return self._timed("attend", form, partial(attend, layer), qkv)

        return timed

    def pick(
        self,
        pick: Callable[[mx.array], tuple[mx.array, mx.array]],
        logits: mx.array,
        launches: Counter[str],
    ) -> None:
        """`pick` (see engine.layers.ops.pick), timed; it is known to launch these."""
        self._timed("pick", f"{logits.shape[-1]}", pick, logits, launches=launches)

    def _linear(self, name: str, owner: object, run: Callable[..., Array], *arrays: Array) -> Array:
        if self._compiles:
            run = self._compiled.setdefault((name, owner), mx.compile(run))
        return self._timed(name, "", run, *arrays)

    def _timed(
        self,
        name: str,
        form: str,
        run: Callable[..., Array],
        *arrays: Array,
        launches: Counter[str] | None = None,
    ) -> Array:
        """What `run` gives of `arrays`; a `form` that is "" is the widths of the last of them and of that."""
        mx.eval(arrays)
        before = self._ours.copy() if self._is_counting else None
        called = time.perf_counter()
        result = run(*arrays)
        outputs: list[Array] = [*result] if name == "pick" else [result]
        if before is not None:
            launched = self._launched(name, before, outputs) if launches is None else launches
            self._calls.append(_Call(name, form or _form(arrays[-1], outputs[0]), launched))
        built = time.perf_counter()
        mx.eval(outputs)
        ended = time.perf_counter()
        if before is None:
            self._calls[self._place].seconds.append(ended - (built if self._is_lazy else called))
        self._place += 1
        return result

    def _launched(self, name: str, before: Counter[str], outputs: list[Array]) -> Counter[str]:
        if isinstance(self._ops, HostOps):
            return Counter([HOST + name])
        return self._ours - before + operations(outputs)


def _form(x: Array, y: Array) -> str:
    return f"{y.shape[-1]}" if x.ndim == 1 else f"{x.shape[-1]}→{y.shape[-1]}"


def _part(calls: list[_Call], empty: float) -> StepPart:
    launches = sum((call.launches for call in calls), Counter[str]())
    seconds = statistics.median(second for call in calls for second in call.seconds)
    return StepPart(calls[0].name, calls[0].form, len(calls), dict(launches), max(0.0, seconds - empty))
