"""What layers ask of a model's tensors, whatever files these come from, and the count of what was read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import mlx.core as mx

from engine.loading.gguf.placement import Placement
from engine.loading.quantization import QuantizationSpec


@dataclass(slots=True)
class LoadLedger:
    """What loading has done so far: bytes in memory, weights counted, names taken.

    `on_bytes` hears of each tensor's bytes in its file.
    """

    on_bytes: Callable[[int], None]
    weight_bytes: int = 0
    parameters: int = 0
    taken: set[str] = field(default_factory=set[str])

    def add(self, name: str, array: mx.array, stands_for: int, file_bytes: int) -> None:
        """Count a tensor that is now in memory and report its bytes in the file."""
        self.taken.add(name)
        self.weight_bytes += array.nbytes
        self.parameters += stands_for
        self.on_bytes(file_bytes)


class Weights(Protocol):
    """The tensors under a dotted prefix, by Hugging Face's names, whatever files they come from.

    Each is read from its file when it is asked for, and only then. Floating tensors arrive in `dtype`. Every
    mistake raises ModelError with the tensor's name.

    Attributes:
        dtype: what the model is computed in.
        ledger: what was read, shared by all prefixes.
    """

    dtype: mx.Dtype
    ledger: LoadLedger

    def at(self, name: str) -> Weights:
        """The same tensors, seen from the prefix extended by `name`."""
        ...

    def __contains__(self, name: str) -> bool: ...

    def array(self, name: str, shape: tuple[int, ...]) -> mx.array:
        """A dense tensor of `shape`, in the compute dtype."""
        ...

    def quantization(self, width: int) -> QuantizationSpec:
        """How MLX's quantised matrix at this prefix, of `width` columns, is packed."""
        ...

    def packed(self, name: str, shape: tuple[int, ...], stands_for: int) -> mx.array:
        """Such a matrix's packed uint32 words; `stands_for` weights are counted for it."""
        ...

    def scales(self, name: str, shape: tuple[int, ...]) -> mx.array:
        """Its scales or biases; floating ones in the compute dtype."""
        ...

    def placement(self, name: str) -> Placement | None:
        """What becomes of a tensor that is stored in GGUF's blocks; None where it is dense or MLX's."""
        ...

    def blocks(self, rows: Mapping[str, int], width: int) -> mx.array:
        """The blocks of matrices under each other, as they lie: uint8 (all rows, bytes per row).

        Args:
            rows: of each matrix, by its name; all are of one block format.
            width: of all of them.
        """
        ...

    def untaken(self) -> list[str]:
        """Names nobody asked for, but for buffers known to be derived."""
        ...
