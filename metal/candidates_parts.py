"""What candidates of several ops are made of: digests, seeded arrays, parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal.errors import KernelError
from metal.source import KERNELS, load_source
from metal.trial_case import Params

BUILTIN = "mlx"
"""The name of MLX's own operation among the candidates of an op."""

DTYPES: Mapping[str, mx.Dtype] = {
    "float32": mx.float32,
    "float16": mx.float16,
    "bfloat16": mx.bfloat16,
}


@cache
def digest(*kernels: str) -> str:
    """`digest_in` of the project's own kernels, whose text is what it was when it was first read."""
    return digest_in(KERNELS, *kernels)


def digest_in(folder: Path, *kernels: str) -> str:
    """Changes with the text of these kernels, of what they include, of the dialect, or of their launchers,
    which are the modules whose names begin with a kernel's.

    The emulator's part of the dialect is none of it: what runs there is no verdict on a GPU's text.
    """
    text = hashlib.sha256()
    for name in kernels:
        source = load_source(name, folder=folder)
        for target in ("metal", "cuda"):
            text.update(source.digest(target).encode())
        for launcher in sorted(folder.glob(f"{name}*.py")):
            text.update(launcher.read_bytes())
    return text.hexdigest()[:12]


def exact_norm(x: NDArray[np.float64], weight: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """weight · x / sqrt(mean(x²) + epsilon) over the last dimension."""
    return weight * x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)


def normal(shape: Sequence[int], dtype: mx.Dtype, seed: int, scale: float = 1.0) -> mx.array:
    """Seeded values of the normal distribution with deviation `scale`, made where MLX computes."""
    return mx.random.normal(shape, dtype=dtype, scale=scale, key=mx.random.key(seed))


def wide(array: mx.array) -> NDArray[np.float64]:
    """The values, exactly."""
    return np.array(array.astype(mx.float32)).astype(np.float64)


def name_of(dtype: mx.Dtype) -> str:
    """Such as "float16"."""
    return str(dtype).removeprefix("mlx.core.")


def integer(params: Params, name: str) -> int:
    """A parameter that must be a whole number. Raises KernelError."""
    value = params.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise KernelError(f"parameter '{name}' is {value!r}; a whole number is expected")
    return value


def number(params: Params, name: str) -> float:
    """A parameter that must be a number. Raises KernelError."""
    value = params.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise KernelError(f"parameter '{name}' is {value!r}; a number is expected")
    return float(value)


def dtype_of(params: Params, name: str) -> mx.Dtype:
    """A parameter that must name a dtype. Raises KernelError."""
    return dtype_named(params.get(name))


def dtype_named(name: object) -> mx.Dtype:
    """The dtype of a name in `DTYPES`. Raises KernelError."""
    if not isinstance(name, str) or name not in DTYPES:
        raise KernelError(f"dtype {name!r}: {', '.join(DTYPES)} are known")
    return DTYPES[name]
