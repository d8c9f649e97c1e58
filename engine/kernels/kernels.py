"""The project's own kernels for one loaded model: what runs on them here, why, and their launchers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import mlx.core as mx

from engine.kernels.attention_set import set_cuts, set_spec
from engine.kernels.cases import ROWS
from engine.kernels.choice import KernelChoice
from engine.kernels.ops import KernelOps
from engine.kv.in_place import AttentionKernels
from engine.layers.attention import AttentionLayer
from engine.layers.decoder import Decoder
from engine.layers.linear import Embedding, Linear
from engine.layers.norm import RMSNorm
from engine.layers.ops import PICK_OPERATIONS, BuiltinOps, pick
from metal.attention_shape import AttentionShape
from metal.candidates_ends import pick_spec
from metal.candidates_prefill import chunk_spec, long_spec, odd_spec, short_cuts, short_spec
from metal.decode_attention import DecodeAttention
from metal.decode_cut import DecodeCut
from metal.errors import KernelError
from metal.executors import EmulatedExecutor
from metal.page_copy import PageCopy
from metal.page_gather import PageGather
from metal.page_write import PageWrite
from metal.pick import Pick
from metal.prefill_attention import PrefillAttention, PrefillCut
from metal.trial_case import CaseSpec
from metal.unpack import Unpack


class Kernels:
    """Launchers for the shapes of one model, as far as kernels were chosen for them.

    Attributes:
        choice: what decided.
        launches: how often each kernel was launched (inside a traced step: once, when it was traced).
        is_lazy: whether launches wait until their results are asked for, as on a GPU.
        attention: the in-place set of each shape that the model's layers have; empty where MLX's functional
            set runs, for all layers then.
        attention_reason: why it is this set, for people.
        ops: the linear parts of a step.
        kv_bits: of a stored key or value element; None as computed. Kernels take no other pages.
        unpack: what a short chunk begins with.
        pick, pick_launches: the greedy choice (see engine.layers.ops.pick), and what it launches.
    """

    def __init__(self, choice: KernelChoice, decoder: Decoder, kv_bits: int | None = None) -> None:
        """Asks for everything the model does, so that what waits for a trial is known before a request."""
        self.choice, self.kv_bits = choice, kv_bits
        self.launches: Counter[str] = Counter()
        self.is_lazy = not isinstance(choice.executor, EmulatedExecutor)
        self.attention_reason = ""
        shapes = tuple(dict.fromkeys(layer.shape for layer in decoder.attention))
        self.attention = {shape: self._launchers(shape, cut) for shape, cut in self._cuts(shapes).items()}
        self.ops = KernelOps(choice, self.launches, len(decoder.attention))
        self.unpack = Unpack(choice.executor, self.launches, shapes[0].page_size)
        self.pick, self.pick_launches = pick, PICK_OPERATIONS
        if choice.kernel(pick_spec(decoder.vocab_size, 1)) is not None:
            self.pick, self.pick_launches = Pick(choice.executor, self.launches).__call__, ("pick",)
        _ask_for_products(decoder, self.ops)
        if self.attention:
            for layer, projection in zip(decoder.attention, decoder.projections, strict=True):
                self.ops.prepare_pages(layer, projection)

    @property
    def is_in_place(self) -> bool:
        """Whether attention runs on kernels that write and read pages themselves."""
        return bool(self.attention)

    @property
    def partition(self) -> int:
        """Keys of a partition; page tables are padded to whole ones, of every shape."""
        return max(kernels.decode.partition for kernels in self.attention.values())

    @property
    def notes(self) -> tuple[str, ...]:
        """What kernels do not take, or failed at here: a line each."""
        return (*self.ops.refused, *self.choice.notes)

    def _cuts(self, shapes: tuple[AttentionShape, ...]) -> dict[AttentionShape, DecodeCut]:
        """How attention of each shape is cut; nothing where one of them is not to run in place."""
        if self.kv_bits is not None:
            self.attention_reason = f"the {self.choice.name} kernels take no KV pages of {self.kv_bits} bits"
            return {}
        try:
            specs = {shape: set_spec(shape) for shape in shapes}
            kernels = {shape: self.choice.kernel(spec) for shape, spec in specs.items()}
            for shape in shapes:
                self._prefill(shape, chunk_spec)
                self._prefill(shape, long_spec)
                self._pads(shape)
                self._short_cut(shape)
        except KernelError as error:
            self.attention_reason = f"the {self.choice.name} kernels do not take {error}"
            return {}
        decisive = next((shape for shape, kernel in kernels.items() if kernel is None), shapes[0])
        self.attention_reason = self.choice.why(specs[decisive])
        cuts = {shape: set_cuts(shape)[kernel] for shape, kernel in kernels.items() if kernel is not None}
        return cuts if len(cuts) == len(shapes) else {}

    def _launchers(self, shape: AttentionShape, cut: DecodeCut) -> AttentionKernels:
        executor = self.choice.executor
        short = self._short_cut(shape)
        return AttentionKernels(
            DecodeAttention(executor, self.launches, shape, cut),
            PageWrite(executor, self.launches, shape),
            PageGather(executor, self.launches, shape),
            PageCopy(executor, self.launches, shape),
            prefill=self._prefill(shape, chunk_spec),
            long=self._prefill(shape, long_spec),
            short=PrefillAttention(executor, self.launches, shape, short) if short is not None else None,
            pads=self._pads(shape),
        )

    def _prefill(
        self, shape: AttentionShape, spec: Callable[[AttentionShape], CaseSpec]
    ) -> PrefillAttention | None:
        """Attention where the history lies, if that is faster than gathering it for chunks as `spec` has."""
        # The other way gathers with a kernel of ours: an executor that was asked for has nothing to say here.
        is_proven = self.choice.proven(spec(shape)) is not None
        return PrefillAttention(self.choice.executor, self.launches, shape) if is_proven else None

    def _pads(self, shape: AttentionShape) -> bool:
        return self.choice.proven(odd_spec(shape)) is not None

    def _short_cut(self, shape: AttentionShape) -> PrefillCut | None:
        """Of attention where its history lies, for a short chunk; None where another way is faster."""
        return short_cuts(shape).get(self.choice.proven(short_spec(shape)) or "")


class _Survey:
    """LinearOps that prepare what they are asked for; of their results only the shapes mean anything."""

    def __init__(self, ops: KernelOps) -> None:
        self._ops, self._builtin = ops, BuiltinOps()

    def embed(self, ids: mx.array, embedding: Embedding) -> mx.array:
        """See LinearOps."""
        self._ops.prepare_embedding(ids, embedding)
        return self._builtin.embed(ids, embedding)

    def project(self, x: mx.array, norm: RMSNorm, linear: Linear) -> mx.array:
        """See LinearOps."""
        self._ops.prepare(x, "project", linear, norm)
        return self._builtin.project(x, norm, linear)

    def gated(self, x: mx.array, norm: RMSNorm, linear: Linear) -> mx.array:
        """See LinearOps."""
        self._ops.prepare(x, "gated", linear, norm)
        return self._builtin.gated(x, norm, linear)

    def add(self, residual: mx.array, x: mx.array, linear: Linear) -> mx.array:
        """See LinearOps."""
        self._ops.prepare(x, "add", linear, None)
        return self._builtin.add(residual, x, linear)

    def logits(self, x: mx.array, norm: RMSNorm, linear: Linear) -> mx.array:
        """See LinearOps."""
        self._ops.prepare(x, "logits", linear, norm)
        return self._builtin.logits(x, norm, linear)


def _ask_for_products(decoder: Decoder, ops: KernelOps) -> None:
    """Builds steps that are never computed, so that all products of the model are prepared.

    Layer by layer from the same rows: the emulator computes at once what it is asked for, and a step's arrays
    would be there for all layers together.
    """
    survey = _Survey(ops)
    for rows in ROWS:
        x = decoder.embed(mx.zeros(rows, mx.uint32), survey)
        for layer in range(len(decoder.attention)):
            decoder.through(x, survey, _no_attention, range(layer, layer + 1))
        decoder.logits(x, survey)


def _no_attention(layer: AttentionLayer, qkv: mx.array) -> mx.array:
    return qkv[:, : layer.shape.heads * layer.shape.head_dim]
