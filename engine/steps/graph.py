"""What MLX will do for arrays that are not evaluated yet, counted from its own graph."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Hashable, Sequence

import mlx.core as mx

from engine.kernels.launch_names import MLX

_NODE = re.compile(r'\[label ?="(\w+)", shape=rectangle\]')

_NO_LAUNCH = frozenset(
    "AsStrided Broadcast BroadcastAxes CustomKernel Depends ExpandDims Flatten Load Reshape Slice Split "
    "Squeeze StopGradient Transpose Unflatten View".split()
)
"""Operations that share their input's memory (Reshape copies where it cannot), and kernels of our own."""


def operations(outputs: Sequence[mx.array]) -> Counter[str]:
    """MLX's own operations that computing `outputs` launches, by name with "mlx." before it."""
    drawing = io.StringIO()
    mx.export_to_dot(drawing, *outputs)
    names = Counter(_NODE.findall(drawing.getvalue()))
    return Counter({MLX + name: count for name, count in names.items() if name not in _NO_LAUNCH})


class GraphCounter:
    """`operations` of graphs that are built again and again: of each form the first is looked at."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Counter[str]] = {}

    def __call__(self, form: Hashable, output: mx.array) -> Counter[str]:
        """The operations of computing `output`; equal forms are of equal graphs."""
        if form not in self._known:
            self._known[form] = operations([output])
        return self._known[form]
