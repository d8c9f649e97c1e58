"""Page write and attention as one choice: MLX's functional set, or the in-place set in one of its cuts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, cast

import mlx.core as mx

from engine.kernels.attention_drivers import Driver, FunctionalDriver, InPlaceDriver
from engine.kernels.attention_run import Run, run_sequences
from engine.kv.in_place import AttentionKernels
from metal.attention_shape import AttentionShape
from metal.candidates_parts import BUILTIN, digest, dtype_named, name_of
from metal.decode_attention import DecodeAttention
from metal.decode_cut import DecodeCut, cuts
from metal.errors import KernelError
from metal.executors import Executor
from metal.page_copy import PageCopy
from metal.page_gather import PageGather
from metal.page_write import PageWrite
from metal.trial_case import TOLERANCE, CaseBuilder, CaseSpec, Contender, Params

_KERNELS = ("decode_attention", "attention_reduce", "page_write", "page_gather")
_MOST_LAYERS = 12
_COLD_BYTES = 64 << 20  # keys and values of a step are not in a GPU's cache when their turn comes


@dataclass(frozen=True, slots=True)
class AttentionSet:
    """A shape, and what it is tried on, in words that fit into JSON.

    Attributes:
        heads, kv_heads, head_dim, page_size, dtype, scale, window, norm_epsilon: see `AttentionShape`.
        history: tokens before the run of the first sequence; so many that the run ends in a second partition.
        steps: of the run by which the sets must agree.
        contexts: tokens in pages where a step is timed; a link is one step at each.
    """

    heads: int
    kv_heads: int
    head_dim: int
    page_size: int
    dtype: str
    scale: float
    window: int | None = None
    norm_epsilon: float | None = None
    history: int = 480
    steps: int = 64
    contexts: str = "512,4096"

    @property
    def shape(self) -> AttentionShape:
        """As the kernels take it."""
        return AttentionShape(
            self.heads,
            self.kv_heads,
            self.head_dim,
            self.head_dim,
            self.page_size,
            dtype_named(self.dtype),
            self.scale,
            self.window,
            norm_epsilon=self.norm_epsilon,
        )

    @property
    def key(self) -> str:
        """The shape class in words."""
        words = ["attention set", self.dtype, f"{self.heads}/{self.kv_heads}x{self.head_dim}"]
        words += [f"p{self.page_size}", f"window{self.window}" if self.window else ""]
        return " ".join(filter(None, [*words, "norm" if self.norm_epsilon is not None else ""]))


def set_spec(shape: AttentionShape) -> CaseSpec:
    """The case of `shape`.

    Raises:
        KernelError: a shape that the kernels are not written for, or that MLX's set does not compute.
    """
    shape.check()
    if shape.softcap is not None or shape.sinks or shape.rotary_dims != shape.head_dim:
        raise KernelError("softcaps, sinks or partly rotated heads: nothing to compare with is written")
    names = {field.name for field in fields(AttentionSet)} & {field.name for field in fields(AttentionShape)}
    values = {name: getattr(shape, name) for name in names - {"dtype"}}
    return CaseSpec(__name__, "attention set", asdict(AttentionSet(**values, dtype=name_of(shape.dtype))))


def set_cuts(shape: AttentionShape) -> Mapping[str, DecodeCut]:
    """The in-place candidates of `shape` by name."""
    return {f"in place {cut.partition}/{cut.simdgroups}x{cut.rows}": cut for cut in cuts(shape)}


class SetCase:
    """A `Case`: agreement is a run of three layers, timing is steps of more at each context."""

    counts_host = True
    """The functional set waits for every step before it builds the next; the in-place set looks ahead."""

    def __init__(self, what: AttentionSet, executor: Executor) -> None:
        self.spec = CaseSpec(__name__, "attention set", asdict(what))
        self.key = what.key
        self.tolerance = TOLERANCE[what.dtype]
        text = digest(*_KERNELS)
        self._what, self._executor = what, executor
        self._cuts = set_cuts(what.shape)
        self.contenders = (Contender(BUILTIN), *(Contender(name, text) for name in self._cuts))
        self._loops: dict[str, list[Driver]] = {}

    @cached_property
    def _run(self) -> Run:
        return Run.make(self._what.shape, self._what.history, self._what.steps)

    def error(self, name: str) -> float:
        """See `Case.error`."""
        return self._run.error(run_sequences(self._driver(name, 3, self._run.pages), self._run))

    def chain(self, name: str, links: int) -> list[mx.array]:
        """See `Case.chain`; a link is a step at each context."""
        if name not in self._loops:
            self._loops[name] = [self._at(name, int(tokens)) for tokens in self._what.contexts.split(",")]
        shape = self._what.shape
        x = mx.zeros((1, shape.heads * shape.head_dim), shape.dtype)
        for _ in range(links):
            for driver in self._loops[name]:
                x = driver.repeat(x)
        return [x]

    def _at(self, name: str, tokens: int) -> Driver:
        """Layers with one sequence of `tokens` tokens in pages."""
        shape = self._what.shape
        layer_bytes = 2 * tokens * shape.kv_heads * shape.head_dim * shape.dtype.size
        layers = max(3, min(_MOST_LAYERS, _COLD_BYTES // layer_bytes))
        driver = self._driver(name, layers, tokens // shape.page_size + 1)
        driver.fill(tokens)
        return driver

    def _driver(self, name: str, layers: int, pages: int) -> Driver:
        shape = self._what.shape
        if name == BUILTIN:
            return FunctionalDriver(shape, layers, pages)
        launches: Counter[str] = Counter()
        kernels = AttentionKernels(
            DecodeAttention(self._executor, launches, shape, self._cuts[name]),
            PageWrite(self._executor, launches, shape),
            PageGather(self._executor, launches, shape),
            PageCopy(self._executor, launches, shape),
        )
        return InPlaceDriver(shape, layers, pages, kernels, self._executor)


def attention_set(params: Params, executor: Executor) -> SetCase:
    """Builds the case of `set_spec`. Raises KernelError."""
    try:
        what = AttentionSet(**cast("dict[str, Any]", dict(params)))
    except TypeError as error:
        raise KernelError(f"attention set: {error}") from None
    what.shape.check()
    return SetCase(what, executor)


CASES: Mapping[str, CaseBuilder] = {"attention set": attention_set}
