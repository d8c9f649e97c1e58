"""The memory of MLX's arrays, as numpy sees it on a CPU."""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray


def host_view(array: mx.array) -> NDArray[Any]:
    """The memory of an evaluated array, to be read; to be written too where no other array shares it.

    Raises ValueError for bfloat16, which numpy has no type for.
    """
    return cast("NDArray[Any]", np.array(array, copy=False))
