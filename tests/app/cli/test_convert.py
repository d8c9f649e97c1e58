"""`mlxr convert`: what it writes, shows and refuses, and that it can be interrupted."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli.convert import progress_line
from app.cli.terminal import Terminal
from tests.app.cli.conftest import Run, StartTerminal
from tests.fakes.random_model import write_random_model


def test_a_model_is_converted_and_chats(mlxr_here: Run, tmp_path: Path) -> None:
    source, target = write_random_model(tmp_path / "source", shards=2), tmp_path / "my q4"
    done = mlxr_here("convert", source, target, "--quant", "q4", "--group-size", 32, "--dtype", "float16")
    assert done.returncode == 0
    assert done.stderr == ""
    first, last = done.stdout.splitlines()
    assert first.startswith("source: 534 kB of weights are ")
    assert first.endswith(f"in {target}, 23 matrices quantised")
    assert shlex.split(last) == ["chat", "with", "it:", "mlxr", "chat", "--model", str(target)]
    said = mlxr_here("generate", "--model", target, "--tokens", "5,6,7", "--raw", "--max-tokens", 4, "--json")
    assert len(json.loads(said.stdout)["tokens"]) == 4
    looked = mlxr_here("doctor", "--model", target)
    assert "4-bit, groups of 32 (affine)" in looked.stdout


def test_what_does_not_divide_is_told(mlxr_here: Run, tmp_path: Path) -> None:
    source = write_random_model(tmp_path / "source")
    done = mlxr_here("convert", source, tmp_path / "q8", "--quant", "q8")
    assert "3 stayed as they were: they do not divide into groups (model.layers.0.mlp" in done.stdout


def test_a_repository_in_the_cache_is_converted(mlxr: Run, tmp_path: Path) -> None:
    revision = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "hf" / "hub" / "models--someone--tiny"
    write_random_model(repository / "snapshots" / revision)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(revision)
    home = {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_CACHE": None}
    done = mlxr("convert", "someone/tiny", tmp_path / "q4", "--quant", "q4", "--group-size", 32, env=home)
    assert done.returncode == 0
    assert done.stdout.startswith("someone/tiny: ")
    assert (tmp_path / "q4" / "config.json").is_file()


REFUSED: dict[str, tuple[Callable[[Path], list[object]], int, str]] = {
    "no quantisation named": (lambda at: [at / "source", at / "q4"], 2, "--quant"),
    "unknown quantisation": (lambda at: [at / "source", at / "q4", "--quant", "q7"], 2, "q7"),
    "group of 48": (
        lambda at: [at / "source", at / "q4", "--quant", "q4", "--group-size", 48],
        2,
        "group size 48 is not for q4, which takes 32, 64, 128",
    ),
    "empty target": (lambda at: [at / "source", " ", "--quant", "q4"], 2, "DST is empty"),
    "no source": (lambda at: [at / "nowhere", at / "q4", "--quant", "q4"], 1, "no such folder"),
    "target exists": (lambda at: [at / "source", at / "source", "--quant", "q4"], 1, "exists already"),
    "pickled": (lambda at: [at / "pickled", at / "q4", "--quant", "q4"], 1, "has only pickled weights"),
    "quantised": (lambda at: [at / "packed", at / "q4", "--quant", "q4"], 1, "is quantised already"),
    "GGUF": (lambda at: [at / "model.gguf", at / "q4", "--quant", "q4"], 1, "model.gguf"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_converted_is_one_line(name: str, mlxr_here: Run, tmp_path: Path) -> None:
    arguments, code, says = REFUSED[name]
    write_random_model(tmp_path / "source")
    pickled = write_random_model(tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    packed = write_random_model(tmp_path / "packed", quantization={"bits": 4, "group_size": 32})
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    assert packed.is_dir()
    done = mlxr_here("convert", *arguments(tmp_path))
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "q4").exists()


def test_ctrl_c_leaves_nothing(terminal: StartTerminal, tmp_path: Path) -> None:
    wide = {"hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 4}
    source = write_random_model(tmp_path / "source", **wide)
    running = terminal("convert", source, tmp_path / "small", "--quant", "nvfp4")  # the slowest
    running.wait_for("converting: ")
    running.wait_for(" left")
    running.type("\x03")
    assert running.end() == 130, running.screen
    assert "Traceback" not in running.screen
    assert not list(tmp_path.glob("*small*"))


def test_progress_tells_bytes_rate_and_time_left() -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen, now = Screen(), 100.0
    terminal = Terminal(io.StringIO(), screen, {"TERM": "xterm", "NO_COLOR": "1"})
    show = progress_line(terminal, lambda: now)
    show(0, 10**10)
    now = 100.05
    show(10**7, 10**10)  # too soon to be drawn
    now = 110.0
    show(2 * 10**9, 10**10)
    now = 150.0
    show(10**10, 10**10)
    lines = screen.getvalue().split("\r\x1b[K")[1:]
    assert lines == [
        "converting: 0 bytes of 10.0 GB",
        "converting: 2.0 GB of 10.0 GB, 200 MB/s, 40 s left",
        "converting: 10.0 GB of 10.0 GB, 200 MB/s, 0 s left",
    ]
