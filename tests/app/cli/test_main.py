"""The `mlxr` command as a whole: help, versions, mistakes, and what happens without a display."""

from __future__ import annotations

import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from app.__main__ import MLX
from app.cli.commands import COMMANDS
from tests.app.cli.conftest import ROOT, Run, StartTerminal

NO_DISPLAY: dict[str, str | None] = {"DISPLAY": None, "WAYLAND_DISPLAY": None, "QT_QPA_PLATFORM": None}


def test_help_lists_every_command(mlxr: Run) -> None:
    done = mlxr("--help")
    assert done.returncode == 0
    for spec in COMMANDS:
        assert f"{spec.name} " in done.stdout
        assert spec.summary in done.stdout


ABOUT_ITS_OWN = {
    "convert": "SRC DST",
    "import": "PATH",
    "models": "[NAME]",
    "pull": "REPO[:QUANT]",
    "rm": "NAME",
    "top": "--once",
}
"""What the usage of commands has that open no model."""


@pytest.mark.parametrize("name", [spec.name for spec in COMMANDS])
def test_every_command_explains_itself(mlxr_here: Run, name: str) -> None:
    done = mlxr_here(name, "--help")
    assert done.returncode == 0
    assert f"usage: mlxr {name}" in done.stdout
    assert ABOUT_ITS_OWN.get(name, "--model M") in done.stdout


def test_help_does_not_load_the_engine(mlxr: Run, tmp_path: Path) -> None:
    (tmp_path / "mlx").mkdir()
    (tmp_path / "mlx" / "__init__.py").write_text("raise ImportError('mlx was imported')")
    path = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    assert mlxr("--help", env=path).returncode == 0
    broken = mlxr("chat", "hello", env=path)
    assert broken.returncode == 1
    assert "mlx was imported" in broken.stderr
    assert "Traceback" not in broken.stderr


def test_the_version_is_the_projects(mlxr: Run) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert mlxr("--version").stdout == f"mlxr {project['version']}\n"


@pytest.mark.parametrize(
    "arguments", [("nonsense",), ("--nonsense",), ("chat", "--nonsense"), ("doctor", "extra")]
)
def test_wrong_usage_is_one_line_and_exit_code_2(mlxr_here: Run, arguments: tuple[str, ...]) -> None:
    done = mlxr_here(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "--help" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("arguments", "command"), [(("top", "--nope"), "mlxr top"), (("--nope",), "mlxr")])
def test_an_unknown_option_leads_to_the_help_that_lists_those_there_are(
    mlxr_here: Run, arguments: tuple[str, ...], command: str
) -> None:
    done = mlxr_here(*arguments)
    assert done.stderr == f"error: unrecognized arguments: --nope; see `{command} --help`\n"


def test_safe_mode_is_the_windows(mlxr_here: Run) -> None:
    done = mlxr_here("--safe", "doctor")
    assert done.returncode == 2
    assert done.stderr == "error: --safe is for the window; commands run so with MLXR_EXECUTOR=reference\n"


@pytest.mark.parametrize("display", [NO_DISPLAY, {**NO_DISPLAY, "DISPLAY": ":9173"}], ids=["none", "dead"])
def test_without_a_display_the_chat_starts(
    terminal: StartTerminal, random_model: Path, display: dict[str, str | None]
) -> None:
    chat = terminal("--model", random_model, env=display)
    chat.wait_for("Starting the chat in the terminal.")
    chat.wait_for("> ")
    chat.type("/quit\n")
    assert chat.end() == 0


def test_without_a_display_a_pipe_is_answered(mlxr: Run, random_model: Path) -> None:
    done = mlxr("--model", random_model, stdin="a page", env=NO_DISPLAY)
    assert done.returncode == 0
    assert done.stdout
    assert done.stderr.startswith("No window can open: no display")


def test_an_account_without_home_is_told_what_to_set(mlxr: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLXR_HOME")
    done = mlxr("chat", "hello", env={"HOME": "", "MLXR_HOME": "~nobody-by-this-name/x"})
    assert done.returncode == 1
    assert "MLXR_HOME" in done.stderr
    assert len(done.stderr.splitlines()) == 1


ABORTS = """
import atexit, os, sys, threading, time
import app.command_line
from app.__main__ import program
class Abort:
    def __del__(self):
        os.abort()
def main():
    print("said", end="")
    if sys.argv[1]:
        sys.modules[sys.argv[1]] = sys
    global taken_down
    taken_down = Abort()  # as what C++ takes down
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    threading.Thread(target=lambda: (time.sleep(0.2), print(", saved", end=""))).start()
    atexit.register(lambda: print(", done", end=""))
    return 3
app.command_line.main = main
sys.exit(program())
"""


@pytest.mark.parametrize(
    ("module", "code"),
    [
        pytest.param(MLX, 3, id="with MLX"),
        pytest.param("", -signal.SIGABRT, id="without"),
    ],
)
def test_what_aborts_when_it_is_taken_down_does_not_abort_a_process_that_is_done(
    module: str, code: int
) -> None:
    """As MLX's threads do on a GPU, now and then."""
    ended = subprocess.run(
        [sys.executable, "-c", ABORTS, module], capture_output=True, timeout=30, check=False
    )
    assert ended.returncode == code
    assert ended.stdout == b"said, saved, done"


PRESSED = """
import os
import signal
import sys

module = sys.argv.pop(1)


class Pressed:
    is_loading = False

    def find_spec(self, name, path=None, target=None):
        if self.is_loading:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
        self.is_loading = name == module


signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Pressed())
from app.__main__ import program

sys.argv = ["mlxr", "generate", "--prompt", "hi"]
program()
"""


@pytest.mark.parametrize("module", [pytest.param("app.cli", id="the command line"), MLX])
def test_ctrl_c_while_something_is_loaded_is_no_fault_of_it(module: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PRESSED, module], capture_output=True, timeout=60, check=False, cwd=ROOT
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, b"", b"")
