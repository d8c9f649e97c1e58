"""`mlxr kernels`: the table and the check, in words and JSON, on machines with and without an executor."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from app.cli.kernels import check_line, check_summary, table_lines
from app.profile_words import ESTIMATE
from engine import KernelCheck, KernelMachine, KernelOp, KernelTable, kernel_machine
from metal.trial_record import CandidateRecord
from tests.app.cli.conftest import Run

METAL = Path(__file__).resolve().parents[3] / "metal"
MACHINE = KernelMachine("metal", "kernels where they are faster", "Apple M4, 16 GiB, macOS 15.1", "0.32.4")
OP = KernelOp(
    "rms_norm float16 width2048 rows1",
    "rms_norm",
    (
        CandidateRecord("mlx", "", "slower", 1e-4, 12.34, "slower than rms_norm"),
        CandidateRecord("rms_norm", "1", "chosen", 2e-4, 6.0, "2.06 times as fast as MLX's"),
        CandidateRecord("wide", "2", "died", None, None, "ended by signal 6 (abort)"),
    ),
)
CHECKS = [
    KernelCheck("rms_norm float16", "rms_norm", 3e-4, 2e-3, True, ""),
    KernelCheck("rms_norm float16", "wide", 4e-4, 2e-3, True, ""),
    KernelCheck("matvec float32", "1x4", None, 1e-5, False, "did not finish within 20 s"),
]

needs_emulator = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("g++") is None, reason="the emulator needs Linux and g++"
)
no_gpu = pytest.mark.skipif(kernel_machine().executor is not None, reason="this machine has a GPU")


def test_the_table_shows_candidates_times_and_reasons() -> None:
    assert list(table_lines(KernelTable(MACHINE, (OP,)))) == [
        "Apple M4, 16 GiB, macOS 15.1; MLX 0.32.4, metal (kernels where they are faster)",
        "",
        "rms_norm float16 width2048 rows1",
        "  mlx          12.3 µs  error 1.0e-04  slower than rms_norm",
        "→ rms_norm      6.0 µs  error 2.0e-04  2.06 times as fast as MLX's",
        "✗ wide                                 ended by signal 6 (abort)",
    ]


def test_what_kept_measuring_from_happening_is_said() -> None:
    lines = list(table_lines(KernelTable(MACHINE, (), "the folder\nis full")))
    assert lines[-2].startswith("nothing was measured here yet: `mlxr kernels --model M`")
    assert lines[-1] == "nothing new was measured: the folder is full"


def test_a_check_is_a_line_for_each_kernel_and_one_to_paste() -> None:
    assert [check_line(check) for check in CHECKS] == [
        "PASS  rms_norm float16: rms_norm  error 3.0e-04",
        "PASS  rms_norm float16: wide  error 4.0e-04",
        "FAIL  matvec float32: 1x4  did not finish within 20 s",
    ]
    summary = check_summary(MACHINE, CHECKS, 12.4)
    for part in (
        "2 passed, 1 failed (matvec)",
        "worst errors 4.0e-04 of 2e-03",
        "Apple M4, 16 GiB, macOS 15.1; MLX 0.32.4, metal",
        "12 s",
    ):
        assert part in summary
    assert "\n" not in summary


@no_gpu
def test_without_an_executor_one_line_says_that_nothing_is_chosen(mlxr_here: Run) -> None:
    done = mlxr_here("kernels")
    assert done.returncode == 0
    assert done.stdout.startswith("no kernels to choose from on this machine: MLX")
    assert "rms_norm" in done.stdout.splitlines()[1]
    assert json.loads(mlxr_here("kernels", "--json").stdout)["executor"] is None


def test_every_text_of_a_kernel_is_listed_with_a_digest_of_its_own(mlxr_here: Run) -> None:
    texts = json.loads(mlxr_here("kernels", "--json").stdout)["texts"]
    assert set(texts) == {path.name for path in METAL.glob("*.metal")}
    assert len(set(texts.values())) == len(texts) > 0


@no_gpu
def test_a_check_of_nothing_does_not_pass(mlxr_here: Run) -> None:
    done = mlxr_here("kernels", "--check")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: no GPU here that kernels run on")
    assert len(done.stderr.splitlines()) == 1


def test_a_forced_executor_that_is_not_there_is_an_error(
    mlxr_here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLXR_EXECUTOR", "abacus")
    done = mlxr_here("kernels")
    assert done.returncode == 1
    assert "abacus" in done.stderr


@needs_emulator
def test_the_ops_of_a_model_are_listed_untried_by_the_emulator(
    mlxr_here: Run, random_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLXR_EXECUTOR", "emulated")
    done = mlxr_here("kernels", "--model", random_model, "--json")
    table = json.loads(done.stdout)
    assert table["executor"] == "emulated"
    names = {op["key"].split()[0] for op in table["ops"]}
    assert names == {"rms_norm", "matvec", "embed", "pick"}
    assert all(op["chosen"] == "mlx" for op in table["ops"])
    assert {one["status"] for op in table["ops"] for one in op["candidates"]} <= {"untried", "chosen"}


@no_gpu
def test_a_step_of_a_model_is_profiled_in_words_and_in_json(mlxr_here: Run, random_model: Path) -> None:
    done = mlxr_here("kernels", "--profile", "--model", random_model)
    assert done.returncode == 0
    about, said, _, heads, *rows = done.stdout.splitlines()
    assert about.startswith(f"{random_model.name}: reference on CPU")
    assert ESTIMATE in said
    assert heads.split()[:2] == ["Part", "Runs"]
    values = json.loads(mlxr_here("kernels", "--profile", "--model", random_model, "--json").stdout)
    assert (values["model"], values["executor"]) == (random_model.name, "reference")
    parts = [f"{part['name']} {part['form']}" for part in values["parts"]]
    assert [row[: len(part)] for row, part in zip(rows, parts, strict=False)] == parts
    launched = sum((Counter(part["launches"]) for part in values["parts"]), Counter[str]())
    assert launched == Counter(values["launches"])
    assert sum(part["seconds"] for part in values["parts"]) + values["left"] == pytest.approx(values["step"])


def test_a_profile_and_a_check_are_two_things(mlxr_here: Run) -> None:
    done = mlxr_here("kernels", "--profile", "--check")
    assert done.returncode == 2
    assert "not allowed with" in done.stderr


def test_a_model_that_is_nowhere_is_an_error(mlxr_here: Run) -> None:
    done = mlxr_here("kernels", "--model", "/nowhere")
    assert done.returncode == 1
    assert "/nowhere" in done.stderr
