"""What a kernel refuses before it is launched, and what its text may not say."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from metal.emulator import Emulator
from metal.errors import KernelError
from metal.executors import CudaExecutor, EmulatedExecutor, MetalExecutor, Output, Request, Signature
from metal.kernel import Kernel
from metal.source import load_source

BODIES = Path(__file__).parent / "bodies"


@pytest.fixture
def launches() -> Counter[str]:
    return Counter()


@pytest.fixture
def kernel(kernel_cache: Path, launches: Counter[str]) -> Kernel:
    executor = EmulatedExecutor(Emulator(kernel_cache))
    return Kernel(
        "mathematics", inputs=["x"], outputs=["y"], executor=executor, launches=launches, folder=BODIES
    )


GOOD: dict[str, Any] = {
    "inputs": {"x": mx.zeros(64)},
    "outputs": [Output((8, 64), mx.float32)],
    "template": {},
    "grid": (64, 1, 1),
    "threadgroup": (64, 1, 1),
}


def test_launches_are_counted(kernel: Kernel, launches: Counter[str]) -> None:
    kernel(**GOOD)
    kernel(**GOOD)
    assert launches == {"mathematics": 2}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"grid": (96, 1, 1)}, r"grid \(96, 1, 1\) is no multiple of the threadgroup \(64, 1, 1\)"),
        ({"grid": (0, 1, 1)}, "is no multiple"),
        ({"grid": (48, 1, 1), "threadgroup": (48, 1, 1)}, "takes a multiple of 32"),
        ({"grid": (2048, 1, 1), "threadgroup": (2048, 1, 1)}, "takes a multiple of 32, to 1024"),
        ({"inputs": {"x": mx.array(1.0)}}, r"input 'x' of shape \(\) is empty or a scalar"),
        ({"inputs": {"x": mx.zeros((0, 4))}}, "is empty or a scalar"),
        ({"inputs": {"x": mx.zeros(64), "z": mx.zeros(8)}}, r"takes \('x',\), not"),
        ({"outputs": []}, "not 0 outputs"),
    ],
)
def test_a_launch_that_does_not_fit(
    kernel: Kernel, launches: Counter[str], change: dict[str, object], says: str
) -> None:
    with pytest.raises(KernelError, match=says):
        kernel(**{**GOOD, **change})
    assert not launches


def test_a_missing_kernel_is_named(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=r"kernel nothing: there is no file nothing\.metal"):
        load_source("nothing", folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [("y[0] = x[0];\n", "no line '#pragma body'"), ("#pragma body\nint max_shape = 1;\n", "'max_shape'")],
)
def test_text_that_would_be_misread(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "odd.metal").write_text(text)
    with pytest.raises(KernelError, match=says):
        load_source("odd", folder=tmp_path)


def test_the_name_follows_every_part_of_the_text(tmp_path: Path) -> None:
    digests: set[str] = set()
    for text in (
        "#pragma body\ny[0] = 1.0f;\n",
        "#pragma body\ny[0] = 2.0f;\n",
        "helper float one() { return 1.0f; }\n#pragma body\ny[0] = 2.0f;\n",
    ):
        (tmp_path / "odd.metal").write_text(text)
        for features in ({}, {"A": 1}, {"A": 2}):
            source = load_source("odd", folder=tmp_path, features=features)
            digests |= {source.digest("metal"), source.digest("cuda")}
    assert len(digests) == 18


def test_comments_and_indentation_are_not_compiled(tmp_path: Path) -> None:
    digests: set[str] = set()
    for text in ("#pragma body\ny[0] = 1.0f;\n", "// A comment.\n#pragma body\n  y[0] = 1.0f;  // more\n"):
        (tmp_path / "odd.metal").write_text(text)
        source = load_source("odd", folder=tmp_path)
        digests.add(source.digest("cuda"))
        assert "//" not in source.header("metal") + source.body_for("cuda")
    assert len(digests) == 1


def test_a_text_is_prepared_once_for_all_who_ask(tmp_path: Path) -> None:
    (tmp_path / "odd.metal").write_text("#pragma body\ny[0] = A;\n")
    for executor in (CudaExecutor(tmp_path / "cuda"), MetalExecutor()):
        asked = [({"A": 1}, "y"), ({"A": 1.0}, "y"), ({"A": 2}, "y"), ({"A": 1}, "z")] * 2
        built = [
            executor.build(load_source("odd", folder=tmp_path, features=features), Signature((), (out,)))
            for features, out in asked
        ]
        assert built[:4] == built[4:]
        assert len(set(built)) == 4
    texts = {file.read_text() for file in (tmp_path / "cuda").iterdir() if ".head." in file.name}
    assert len(texts) == 3


def test_mlx_is_given_short_names_and_no_template_on_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hashes and puts together all of it at every launch."""
    asked, launched = list[dict[str, str]](), list[dict[str, object]]()

    def cuda_kernel(**given: str) -> Callable[..., list[mx.array]]:
        asked.append(given)
        return lambda **launch: launched.append(launch) or []

    monkeypatch.setattr(mx.fast, "cuda_kernel", cuda_kernel)
    (tmp_path / "odd.metal").write_text("#define TWICE (2 * N)\n#pragma body\ny[0] = TWICE;\n")
    launch = CudaExecutor(tmp_path / "cuda").build(
        load_source("odd", folder=tmp_path, features={"A": 1}), Signature(("x",), ("y",))
    )
    x = mx.zeros((9,), mx.float16)
    for template in ({"T": mx.float16, "N": 3, "IS": True}, {"T": mx.float32, "N": 3, "IS": False}):
        for dtype in (mx.float32, mx.float16):
            request = Request((x,), (Output((1,), dtype),), template, (32, 1, 1), (32, 1, 1))
            launch(request), launch(request)
    assert len(launched) == 8
    assert all("template" not in each for each in launched)
    assert len(asked) == len({given["name"] for given in asked}) == 4
    assert all(len(given["name"]) < 20 for given in asked)
    heads, bodies = ({given[part].split('"')[1] for given in asked} for part in ("header", "source"))
    assert len(heads) == 1
    assert sorted({Path(body).read_text() for body in bodies}) == [
        f"using T = {type_};\nconstexpr int N = 3;\nconstexpr bool IS = {is_};\ny[0] = TWICE;\n"
        for type_, is_ in (("__half", "true"), ("float", "false"))
    ]
    assert "#define A 1" in Path(*heads).read_text()
