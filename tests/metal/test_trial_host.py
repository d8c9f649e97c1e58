"""What the host does for a case of a trial: each text is prepared once, one reference made of few columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from metal import candidates_matvec, source
from metal.candidates_matvec import matvec
from metal.executors import CudaExecutor, Launcher, Request, Signature
from metal.product import Product
from metal.source import KernelSource

WIDE = Product(1280, 1000, 1, "float16", bits=4, group=64, norm=True, activation="silu", copies=9)


def zeros(request: Request) -> list[mx.array]:
    return [mx.zeros(output.shape, output.dtype) for output in request.outputs]


class Idle:
    """An executor whose kernels leave zeros."""

    def build(self, _source: KernelSource, _signature: Signature) -> Launcher:
        return zeros


def test_a_text_is_read_and_prepared_once_for_all_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, prepared = list[Path](), list[object]()
    really = source._read
    monkeypatch.setattr(source, "_read", lambda path: read.append(path) or really(path))
    monkeypatch.setattr(CudaExecutor, "_launcher", lambda *made: prepared.append(made) or zeros)
    source._own.cache_clear()
    case = matvec(WIDE.spec.params, CudaExecutor(tmp_path))
    for contender in case.contenders[1:]:
        case.chain(contender.name, WIDE.copies)
    assert [path.name for path in read] == ["matvec_affine.metal"]
    assert len(prepared) == len({cut.split for cut in WIDE.cuts().values()})


def test_one_reference_of_few_columns_is_made_for_all_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = list[int]()
    really = candidates_matvec._dense

    def dense(product: Product, packed: Sequence[mx.array]) -> np.ndarray:
        rows.append(len(packed[0]))
        return really(product, packed)

    monkeypatch.setattr(candidates_matvec, "_dense", dense)
    case = matvec(WIDE.spec.params, Idle())
    assert [case.error(one.name) for one in case.contenders[1:]] == [1.0] * 6
    assert len(rows) == 2  # gates and ups
    assert all(150 < count <= 256 for count in rows)


@pytest.mark.parametrize("column", [0, 63, 936, 999])
def test_a_wrong_column_at_either_end_is_seen(column: int) -> None:
    data = candidates_matvec._data(WIDE)
    step = candidates_matvec._builtin(WIDE)
    right = step(data.x, *data.constants[0]).astype(mx.float32)
    wrong = right + mx.where(mx.arange(WIDE.columns) == column, mx.abs(right).max(), 0.0)
    assert data.error([wrong]) > 0.5 > data.error([right])


def test_weights_of_a_chain_are_alike_and_lie_apart() -> None:
    data = candidates_matvec._data(WIDE)
    mx.eval(data.constants)
    assert len(data.constants) == WIDE.copies
    for parts in zip(*data.constants, strict=True):
        assert all(mx.array_equal(part, parts[0]) for part in parts)
    packed = [np.array(arrays[3], copy=False) for arrays in data.constants]
    assert len({one.ctypes.data for one in packed}) == WIDE.copies
