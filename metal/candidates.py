"""The ops of this folder with their candidates: MLX's built-in first, then our kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import mlx.core as mx

from metal import (
    candidates_attention,
    candidates_ends,
    candidates_matmul,
    candidates_pages,
    candidates_prefill,
)
from metal.candidates_matvec import matvec
from metal.candidates_parts import (
    BUILTIN,
    digest,
    dtype_of,
    exact_norm,
    integer,
    name_of,
    normal,
    number,
    wide,
)
from metal.executors import Executor
from metal.rms_norm import RMSNorm
from metal.trial_case import (
    TOLERANCE,
    Arrays,
    Case,
    CaseBuilder,
    CaseSpec,
    Data,
    OpCandidate,
    OpCase,
    Params,
    Step,
    against,
)

_PROMPT_ROWS = 512


def rms_norm_spec(width: int, rows: int, dtype: str, *, adds: bool, epsilon: float = 1e-5) -> CaseSpec:
    """RMSNorm of `rows` rows, `adds` with a residual added before."""
    params = {"width": width, "rows": rows, "dtype": dtype, "adds": adds, "epsilon": epsilon}
    return CaseSpec(__name__, "rms_norm", params)


def prompt_norm_spec(width: int, dtype: str, epsilon: float) -> CaseSpec:
    """RMSNorm of a prompt's rows, which no product takes in: tried at one number of them."""
    return rms_norm_spec(width, _PROMPT_ROWS, dtype, adds=False, epsilon=epsilon)


def rms_norm(params: Params, executor: Executor) -> Case:
    """Builds the case of `rms_norm_spec`."""
    width, rows, epsilon = integer(params, "width"), integer(params, "rows"), number(params, "epsilon")
    dtype, adds = dtype_of(params, "dtype"), params.get("adds") is True
    kernel = RMSNorm(executor, Counter(), epsilon)

    def builtin(constants: Arrays) -> Step:
        weight, residual = constants
        if not adds:
            return lambda x: [mx.fast.rms_norm(x, weight, epsilon)]

        def step(x: mx.array) -> Sequence[mx.array]:
            total = x + residual
            return [mx.fast.rms_norm(total, weight, epsilon), total]

        return step

    def ours(constants: Arrays) -> Step:
        weight, residual = constants
        return (lambda x: kernel.add(x, residual, weight)) if adds else (lambda x: [kernel(x, weight)])

    def data() -> Data:
        x, residual = normal((rows, width), dtype, 0), normal((rows, width), dtype, 1)
        weight = normal((width,), dtype, 2)
        total = (x.astype(mx.float32) + residual.astype(mx.float32)).astype(dtype) if adds else x
        exact = exact_norm(wide(total), wide(weight), epsilon)
        sums = [wide(x) + wide(residual)] if adds else []
        return Data(x, ((weight, residual),), against(exact, *sums))

    name = "rms_norm add" if adds else "rms_norm"
    return OpCase(
        CaseSpec(__name__, "rms_norm", params),
        f"{name} {name_of(dtype)} width{width} rows{rows}",
        [OpCandidate(BUILTIN, builtin), OpCandidate("rms_norm", ours, digest("rms_norm"))],
        data=data,
        tolerance=TOLERANCE[name_of(dtype)],
    )


CASES: Mapping[str, CaseBuilder] = {
    "rms_norm": rms_norm,
    "matvec": matvec,
    **candidates_attention.CASES,
    **candidates_prefill.CASES,
    **candidates_ends.CASES,
    **candidates_matmul.CASES,
    **candidates_pages.CASES,
}
