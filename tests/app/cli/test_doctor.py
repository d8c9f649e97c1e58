"""`mlxr doctor`: words and exit codes for machines and models in every condition."""

from __future__ import annotations

import json
import os
import platform
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from app.amounts import size
from app.cli.engine_checks import check_model
from app.cli.findings import amount
from app.cli.kv_checks import HOLDS
from app.cli.machine_checks import NEWEST_PYTHON, OLDEST_PYTHON
from app.log import append
from app.paths import default_paths
from engine import machine_report
from metal.trial_cache import TrialCache
from metal.trial_record import CandidateRecord, OpRecord
from metal.trial_scope import this_scope
from tests.app.cli.conftest import ROOT, Run
from tests.engine.loading.gguf.writer import WIDE, q4_k_m, write_gguf_model
from tests.fakes.random_model import VOCAB, write_random_model


def checks(
    mlxr: Run, *arguments: object, env: dict[str, str | None] | None = None
) -> tuple[int, dict[str, Any]]:
    """The exit code, and each finding of the JSON report by "Area/what"."""
    done = mlxr("doctor", *arguments, "--json", **({} if env is None else {"env": env}))
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["healthy"] else 1)
    found = {f"{check['area']}/{check['what']}": check for check in report["checks"]}
    return done.returncode, {
        **found,
        "machine": report["machine"],
        "model": report["model"],
        "kv_loss": report["kv_loss"],
    }


def test_the_machine_is_described(mlxr: Run, random_model: Path) -> None:
    _, found = checks(mlxr, "--model", random_model)
    assert platform.python_version() in found["System/Python"]["is"]
    assert found["machine"]["device"] in {"CPU", "CUDA", "Metal"}
    assert found["Engine/executor"]["state"] == "ok"
    assert found["Window/Qt"]["state"] == "ok"
    assert found["Files/data folder"]["state"] == "ok"


def test_looking_leaves_no_data_folder_behind(mlxr: Run, random_model: Path) -> None:
    checks(mlxr, "--model", random_model)
    assert not Path(os.environ["MLXR_HOME"]).exists()


def test_a_model_is_described(mlxr_here: Run, random_model: Path) -> None:
    _, found = checks(mlxr_here, "--model", random_model)
    tensors = load_file(random_model / "model.safetensors")
    weights = sum(int(np.prod(tensor.shape)) for tensor in tensors.values())
    assert found["model"]["parameters"] == weights
    assert found["model"]["family"] == "llama"
    layers, kv_heads, head_dim, width = 3, 4, 8, 4 if found["machine"]["device"] == "CPU" else 2
    assert found["model"]["kv_bytes_per_token"] == 2 * layers * kv_heads * head_dim * width
    assert found["Model/fit"]["state"] == "ok"
    assert found["Model/chat template"]["state"] == "ok"


def test_a_report_has_no_form_as_json(mlxr_here: Run) -> None:
    done = mlxr_here("doctor", "--report", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: argument --json: not allowed with argument --report")


def test_words_name_every_section(mlxr_here: Run, random_model: Path) -> None:
    report = mlxr_here("doctor", "--model", random_model).stdout
    for area in ("System", "Engine", "Window", "Files", "Model"):
        assert f"\n{area}\n" in "\n" + report
    assert "\x1b" not in report


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda m: (m / "model.safetensors").unlink(), "safetensors"),
        (lambda m: os.truncate(m / "model.safetensors", 5000), "model.safetensors"),
        (lambda m: (m / "config.json").write_text("{"), "config.json"),
        (lambda m: (m / "tokenizer.model").unlink(), "tokenizer"),
    ],
    ids=["no weights", "truncated", "broken config", "no tokenizer"],
)
def test_a_broken_model_is_named_and_everything_else_still_reported(
    mlxr_here: Run, tmp_path: Path, damage: Any, says: str
) -> None:
    model = write_random_model(tmp_path / "model")
    damage(model)
    code, found = checks(mlxr_here, "--model", model)
    assert code == 1
    assert found["Model/files"]["state"] == "broken"
    assert says in found["Model/files"]["is"]
    assert found["Engine/MLX"]["state"] == "ok"


def test_a_model_that_is_nowhere_is_broken(mlxr_here: Run) -> None:
    code, found = checks(mlxr_here, "--model", "/nowhere")
    assert code == 1
    assert "/nowhere" in found["Model/folder"]["is"]


@pytest.mark.parametrize(
    ("memory", "state", "says"),
    [(100_000, "broken", "does not fit"), (1_000_000, "note", "tokens of context"), (10**12, "ok", "fits")],
)
def test_the_fit_depends_on_the_memory(random_model: Path, memory: int, state: str, says: str) -> None:
    machine = replace(machine_report(), memory_bytes=memory)
    findings, _ = check_model(random_model, machine)
    fit = next(finding for finding in findings if finding.what == "fit")
    assert fit.state == state
    assert says in fit.is_
    assert bool(fit.advice) == (state != "ok")


def test_a_gguf_file_is_told_by_its_formats_and_how_each_will_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLXR_EXECUTOR", "reference")
    file = tmp_path / "Small-Q4_K_M.gguf"
    write_gguf_model(file, types=q4_k_m, **WIDE)
    findings, summary = check_model(file, machine_report())
    told = [finding.is_ for finding in findings if finding.what == "stored"]
    assert summary is not None
    assert [line.split(":")[0] for line in told] == ["Q4_K", "Q6_K", "F32"]
    assert "13 tensors, 617 kB, 823 kB in memory; 4-bit affine" in told[0]
    dense = size(3 * 256 * 320 * (4 if summary.dtype == "float32" else 2))
    assert f"3 tensors, 202 kB, {dense} in memory; {summary.dtype}: dequantised" in told[1]
    assert next(finding.is_ for finding in findings if finding.what == "file") == str(file)
    assert all(finding.state == "ok" for finding in findings)


def test_an_executor_that_does_not_exist_is_broken(mlxr: Run, random_model: Path) -> None:
    code, found = checks(mlxr, "--model", random_model, env={"MLXR_EXECUTOR": "abacus"})
    assert code == 1
    assert "abacus" in found["Engine/executor"]["is"]


def test_a_data_folder_that_cannot_be_written_is_broken(
    mlxr: Run, random_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    code, found = checks(mlxr, "--model", random_model, env={"MLXR_HOME": str(tmp_path / "file" / "home")})
    assert code == 1
    assert found["Files/data folder"]["state"] == "broken"
    assert "MLXR_HOME" in found["Files/data folder"]["advice"]


def test_what_stands_in_the_place_of_the_disk_cache_is_told(
    mlxr: Run, random_model: Path, tmp_path: Path
) -> None:
    home = {"MLXR_HOME": str(tmp_path)}
    cache = tmp_path / "kv-cache"
    _, found = checks(mlxr, "--model", random_model, env=home)
    assert "Files/disk cache" not in found
    cache.touch()
    code, found = checks(mlxr, "--model", random_model, env=home)
    assert code == 0
    assert found["Files/disk cache"]["state"] == "note"
    assert found["Files/disk cache"]["is"] == f"{cache} cannot be written: Not a directory"
    assert "move it away" in found["Files/disk cache"]["advice"]
    cache.unlink()
    cache.mkdir()
    _, found = checks(mlxr, "--model", random_model, env=home)
    assert found["Files/disk cache"]["state"] == "ok"
    assert not list(cache.iterdir())


def test_broken_settings_are_reported_and_kept(mlxr: Run, random_model: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{")
    code, found = checks(mlxr, "--model", random_model, env={"MLXR_HOME": str(tmp_path)})
    assert code == 1
    assert found["Files/settings"]["state"] == "broken"
    assert (tmp_path / "settings.json.broken").read_text() == "{"


def test_without_mlx_the_rest_is_reported(mlxr: Run, tmp_path: Path) -> None:
    (tmp_path / "mlx").mkdir()
    (tmp_path / "mlx" / "__init__.py").write_text("raise ImportError('mlx is broken here')")
    code, found = checks(mlxr, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    assert code == 1
    assert "mlx is broken here" in found["Engine/MLX"]["is"]
    assert found["Window/Qt"]["state"] == "ok"


def test_supported_pythons_are_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    oldest, after_newest = (bound.strip("<>=") for bound in project["requires-python"].split(","))
    assert oldest == ".".join(map(str, OLDEST_PYTHON))
    assert after_newest == f"{NEWEST_PYTHON[0]}.{NEWEST_PYTHON[1] + 1}"


def test_without_a_display_the_window_is_a_note(mlxr: Run, random_model: Path) -> None:
    bare: dict[str, str | None] = {"DISPLAY": None, "WAYLAND_DISPLAY": None, "QT_QPA_PLATFORM": None}
    _, found = checks(mlxr, "--model", random_model, env=bare)
    assert found["Window/display"]["state"] == "note"
    assert "mlxr chat" in found["Window/display"]["advice"]


@pytest.fixture(scope="module")
def wide_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with heads of 32, so that its KV cache can be quantised."""
    folder = tmp_path_factory.mktemp("models") / "wide"
    return write_random_model(folder, hidden_size=128, num_attention_heads=4, num_key_value_heads=2)


def test_the_cost_of_a_quantised_kv_cache_is_measured(mlxr_here: Run, wide_model: Path) -> None:
    _, plain = checks(mlxr_here, "--model", wide_model)
    _, found = checks(mlxr_here, "--model", wide_model, "--kv-bits", 4)
    width = 4 if found["machine"]["device"] == "CPU" else 2
    assert "Model/KV loss" not in plain
    assert plain["model"]["kv_bytes_per_token"] == 3 * 2 * 2 * 32 * width
    assert found["model"]["kv_bytes_per_token"] == 3 * 2 * 2 * (16 + 2 * width)
    assert found["Model/KV cache"]["is"].endswith("in 4 bits")
    loss = found["kv_loss"]
    assert 0 < loss["agreement"] < HOLDS
    assert f"4 bits keep {loss['agreement']:.1%} of {loss['positions']}" in found["Model/KV loss"]["is"]
    assert found["Model/KV loss"]["state"] == "note"
    assert "8 bits" in found["Model/KV loss"]["advice"]


@pytest.mark.long
def test_the_guide_s_kv_cache_holds_at_8_bits(mlxr_here: Run) -> None:
    _, found = checks(mlxr_here, "--model", "guide", "--kv-bits", 8)
    assert found["Model/KV loss"]["state"] == "ok"
    assert found["kv_loss"]["agreement"] > 0.99
    assert found["kv_loss"]["positions"] > 1000


def test_a_kv_cache_that_cannot_be_quantised_is_broken_and_the_model_described(
    mlxr_here: Run, random_model: Path
) -> None:
    code, found = checks(mlxr_here, "--model", random_model, "--kv-bits", 8)
    assert code == 1
    assert found["Model/KV loss"]["state"] == "broken"
    assert "heads have 8 elements" in found["Model/KV loss"]["is"]
    assert found["Model/family"]["state"] == "ok"


def test_a_broken_model_is_not_measured(mlxr_here: Run, tmp_path: Path) -> None:
    model = write_random_model(tmp_path / "model")
    (model / "config.json").write_text("{")
    _, found = checks(mlxr_here, "--model", model, "--kv-bits", 8)
    assert "Model/KV loss" not in found
    assert found["kv_loss"] is None


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1500, "1.5 kB"),
        (8_800_000, "8.8 MB"),
        (16_000_000_000, "16.0 GB"),
    ],
)
def test_sizes_for_people(count: int, words: str) -> None:
    assert size(count) == words


@pytest.mark.parametrize(
    ("count", "words"), [(VOCAB, "320"), (8_900_000, "8.9 million"), (1_100_000_000, "1.1 billion")]
)
def test_amounts_for_people(count: int, words: str) -> None:
    assert amount(count) == words


def test_a_kernel_that_does_not_work_here_is_a_note(mlxr: Run, random_model: Path, tmp_path: Path) -> None:
    broken = CandidateRecord("wide", "1", "died", reason="ended by signal 6 (abort)")
    record = OpRecord("rms_norm", "mlx", (CandidateRecord("mlx", "", "chosen"), broken))
    cache = TrialCache(tmp_path / "kernels", this_scope("emulated"))
    cache.update(lambda records: records.update({record.key: record}))
    env: dict[str, str | None] = {"MLXR_HOME": str(tmp_path), "MLXR_EXECUTOR": "emulated"}
    report = mlxr("doctor", "--model", random_model, env=env).stdout
    assert "ours run 0 of 1 measured operations" in report
    assert "wide at rms_norm is off: ended by signal 6 (abort)" in report


def test_a_report_has_the_findings_and_the_end_of_the_log(mlxr_here: Run, random_model: Path) -> None:
    append(default_paths().log, "the kernel broke", "OSError: hf_abcDEF123456")
    report = mlxr_here("doctor", "--model", random_model, "--report").stdout
    assert "\nSystem\n  MLXR " in report
    assert "\n  chat template present\n" in report
    assert "error app: the kernel broke\n    OSError: hf_…\n" in report
