"""The ops' cases: MLX's own agrees with float64, a kernel that does nothing does not, a chain is a chain."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import pytest

from metal.agreement import SUITE
from metal.candidates import CASES, rms_norm_spec
from metal.candidates_parts import digest_in
from metal.candidates_scene import Attention
from metal.errors import KernelError
from metal.executors import Executor, Launcher, Request, Signature
from metal.product import Product
from metal.source import KernelSource
from metal.trial_case import Case, CaseSpec
from metal.trial_scope import open_executor

CHAINED = [
    rms_norm_spec(64, 2, "float32", adds=True),
    Product(64, 96, 1, "float32", norm=True, activation="silu").spec,
    Product(64, 40, 2, "float16", residual=True, copies=3).spec,
    Product(64, 96, 2, "float32", norm=True, out="float32").spec,
    Attention(4, 2, 64, "float32", "17,3", "1,1").spec("decode"),
    Attention(4, 2, 64, "float32", "17,3", "2,5").spec("prefill"),
    Attention(4, 2, 64, "float32", "17,3", "2,5").spec("pages"),
]


class Idle:
    """An executor whose kernels leave zeros, and pages as they were."""

    def build(self, source: KernelSource, signature: Signature) -> Launcher:
        return lambda request: _zeros(request)


def _zeros(request: Request) -> list[mx.array]:
    return [mx.zeros(output.shape, output.dtype) for output in request.outputs]


def case_of(spec: CaseSpec, executor: Executor | None = None) -> Case:
    return CASES[spec.op](spec.params, executor or Idle())


def identifier(spec: CaseSpec) -> str:
    return case_of(spec).key


@pytest.mark.parametrize("spec", SUITE, ids=identifier)
def test_mlx_agrees_and_a_kernel_that_does_nothing_does_not(spec: CaseSpec, kernel_cache: Path) -> None:
    case = case_of(spec)
    builtin, *kernels = case.contenders
    assert builtin.digest == ""
    # MLX's attention of a chunk is fed by our page write and page gather, as is what it projects.
    fed = (
        case_of(spec, open_executor("emulated", kernel_cache))
        if spec.op in ("prefill chunk", "odd chunk", "short chunk", "project to pages")
        else case
    )
    # Packed weights in half precision: MLX's CPU sums them in half precision too.
    assert fed.error(builtin.name) <= (0.1 if spec.params.get("bits") else case.tolerance)
    assert kernels
    for kernel in kernels:
        assert kernel.digest
        assert not case.error(kernel.name) <= 0.5


@pytest.mark.parametrize("spec", CHAINED, ids=identifier)
def test_a_link_takes_what_the_last_one_made(spec: CaseSpec) -> None:
    case = case_of(spec)
    for contender in case.contenders:
        for links in (1, 3):
            arrays = case.chain(contender.name, links)
            mx.eval(arrays)
            assert len(arrays) > 0
    assert count_of_nodes(case.chain("mlx", 3)) > count_of_nodes(case.chain("mlx", 1))


def count_of_nodes(arrays: Sequence[mx.array]) -> int:
    drawing = io.StringIO()
    mx.export_to_dot(drawing, *arrays)
    return drawing.getvalue().count("label")


@pytest.mark.parametrize(
    ("spec", "kernel"),
    [
        (CHAINED[0], "rms_norm"),
        (CHAINED[1], "1x4x1"),
        (CHAINED[4], "decode_attention"),
        (CHAINED[5], "prefill_attention"),
        (CHAINED[6], "page_write, page_copy, page_gather"),
    ],
    ids=["rms_norm", "matvec", "decode", "prefill", "pages"],
)
def test_kernels_agree_and_chain(executor: Executor, spec: CaseSpec, kernel: str) -> None:
    case = case_of(spec, executor)
    assert case.error(kernel) <= case.tolerance
    ours, theirs = case.chain(kernel, 2)[0], case.chain("mlx", 2)[0]
    assert mx.allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("product", "key"),
    [
        (Product(8, 16, 1, "float16"), "matvec dense float16 K8 N16 m1"),
        (
            Product(8, 16, 3, "float32", norm=True, bias=True, activation="silu", out="float32", copies=9),
            "matvec dense norm bias silu float32 to float32 K8 N16 m3",
        ),
    ],
)
def test_a_key_says_what_the_shape_is(product: Product, key: str) -> None:
    assert case_of(product.spec).key == product.key == key


@pytest.mark.parametrize(
    ("op", "params", "says"),
    [
        ("rms_norm", {"width": "wide"}, "'width' is 'wide'"),
        ("rms_norm", {"width": 8, "rows": 1, "epsilon": 1e-5, "dtype": "int3"}, "dtype 'int3'"),
        ("matvec", {"colour": 1}, "colour"),
        ("decode", {"colour": 1}, "colour"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(op: str, params: dict[str, str | int], says: str) -> None:
    with pytest.raises(KernelError, match=says):
        CASES[op](params, Idle())


def test_a_digest_changes_with_the_text_and_with_the_launcher(tmp_path: Path) -> None:
    text = tmp_path / "k.metal"
    seen: set[str] = set()
    for body, launcher in (("", None), ("y[0] = 1;", None), ("y[0] = 1;", "x = 1"), ("y[0] = 1;", "x = 2")):
        text.write_text(f"#pragma body\n{body}\n")
        if launcher:
            (tmp_path / "k.py").write_text(launcher)
        seen.add(digest_in(tmp_path, "k"))
    assert len(seen) == 4
    text.write_text("// A comment is no part of what a GPU's compiler reads.\n#pragma body\ny[0] = 1;\n")
    assert digest_in(tmp_path, "k") in seen
