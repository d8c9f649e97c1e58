"""Products of few rows as a model asks for them: shape, weight, what is fused, cuts worth measuring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from metal.candidates_parts import dtype_named
from metal.matvec import Activation
from metal.matvec_cut import MAX_ROWS, Cut, Work, candidates
from metal.matvec_weight import block_named, lane_weights
from metal.trial_case import CaseSpec

_FEW_ROWS = 32
_MOST_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class Product:
    """A product as `Matvec` makes it, or, of more rows, `Matmul`.

    Of a very large weight the first columns are tried.

    Attributes:
        width, columns: summed over, and of the answer.
        rows: of x.
        dtype: of x, and of a dense weight.
        bits, group: of an affine weight; 0 for another one.
        block: the format of a weight in GGUF's blocks, such as "Q4_K"; "" for another one.
        norm, bias, residual: whether these are there.
        activation: "silu", "gelu" or None.
        out: dtype of the answer; None for that of x.
        copies: weights of this shape in a model. No part of the shape class: a chain takes as many in turn.
    """

    width: int
    columns: int
    rows: int
    dtype: str
    bits: int = 0
    group: int = 0
    block: str = ""
    norm: bool = False
    bias: bool = False
    residual: bool = False
    activation: Activation | None = None
    out: str | None = None
    copies: int = 1

    @property
    def key(self) -> str:
        """The shape class in words."""
        parts = [name for name in ("norm", "bias", "residual") if getattr(self, name)]
        form = self.block or (f"q{self.bits}g{self.group}" if self.bits else "dense")
        words = ["matvec" if self.rows <= MAX_ROWS else "matmul", form, *parts]
        words += [self.activation or "", self.dtype, f"to {self.out}" if self.out else ""]
        tried = self.tried.columns
        part = f" (first {tried})" if tried < self.columns else ""
        return " ".join([*filter(None, words), f"K{self.width}", f"N{self.columns}{part}", f"m{self.rows}"])

    @property
    def tried(self) -> Product:
        """The part that a trial computes: columns do not depend on each other."""
        bits = block_named(self.block).bits if self.block else self.bits or 8 * dtype_named(self.dtype).size
        most = int(_MOST_BYTES * 8 / (bits * self.width)) // (2 if self.activation else 1)
        return replace(self, columns=min(self.columns, max(most, 4096)))

    @property
    def spec(self) -> CaseSpec:
        """From which a trial process builds the case."""
        return CaseSpec("metal.candidates", "matvec", asdict(self))

    @property
    def weight_rows(self) -> int:
        """Rows of the weight: gates and ups, with an activation."""
        return self.columns * (2 if self.activation else 1)

    def cuts(self) -> Mapping[str, Cut]:
        """The candidates of `Matvec` by name."""
        lane = 8 if not self.bits else 128 // self.bits
        if self.block:
            lane = lane_weights(block_named(self.block))
        work = Work(self.rows, self.columns, self.width, lane, gated=self.activation is not None)
        return {_name(cut): cut for cut in candidates(work)}


def takes_few_rows(product: Product) -> bool:
    """Whether `few_rows` of it is a product that `Matmul` takes: of a dense weight, and no logits."""
    is_dense = not product.bits and not product.block
    sizes = product.width % 32 == 0 and product.columns % 8 == 0
    return is_dense and sizes and product.dtype in ("float16", "bfloat16") and not product.out


def few_rows(product: Product) -> Product:
    """Of as many rows as short chunks mostly have, for `Matmul`."""
    return replace(product, rows=_FEW_ROWS)


def _name(cut: Cut) -> str:
    return f"{cut.outputs}x{cut.simdgroups}x{cut.unroll}" + (f"/{cut.split}" if cut.split > 1 else "")
