"""The set-up: what it finds, what it says, and when it has nothing to do."""

from __future__ import annotations

import ast
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = (sys.version_info.major, sys.version_info.minor)
Modules = dict[str, ModuleType]


def run_setup(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(checkout / "packaging" / "setup.py"), *arguments]
    environment = {**os.environ, "PATH": str(checkout / "nothing-here"), "MLXR_PYTHON": ""}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def make_current(checkout: Path, modules: Modules) -> None:
    """What a finished set-up leaves behind."""
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "bin" / "python").symlink_to(sys.executable)
    stamp = f"{HERE[0]}.{HERE[1]} {modules['setup'].fingerprint()}\n"
    (checkout / ".venv" / "mlxr-setup").write_text(stamp, encoding="utf-8")


def files_under(folder: Path) -> list[Path]:
    """All files but the byte code that Python leaves."""
    return sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts)


def write_program(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize("path", sorted((ROOT / "packaging").glob("*.py")), ids=lambda path: path.name)
def test_it_is_written_for_the_python_of_an_old_mac(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))


def test_a_current_environment_is_left_alone(checkout: Path, setup_modules: Modules) -> None:
    make_current(checkout, setup_modules)
    before = files_under(checkout)
    result = run_setup(checkout)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert files_under(checkout) == before


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml", "packaging/setup.py"])
def test_a_changed_file_makes_it_stale(checkout: Path, setup_modules: Modules, changed: str) -> None:
    make_current(checkout, setup_modules)
    assert setup_modules["setup"].is_current(None)
    with (checkout / changed).open("a", encoding="utf-8") as handle:
        handle.write("# changed\n")
    assert not setup_modules["setup"].is_current(None)


def test_an_environment_of_another_python_is_stale_when_one_is_asked_for(
    checkout: Path, setup_modules: Modules
) -> None:
    make_current(checkout, setup_modules)
    stamp = checkout / ".venv" / "mlxr-setup"
    stamp.write_text(
        stamp.read_text(encoding="utf-8").replace(f"{HERE[0]}.{HERE[1]}", "3.10", 1), encoding="utf-8"
    )
    assert setup_modules["setup"].is_current(None)
    assert not setup_modules["setup"].is_current(sys.executable)


def test_a_python_that_cannot_serve_is_refused_in_one_line(checkout: Path) -> None:
    other = write_program(checkout / "python3.10", "echo 3 10 cpython x86_64 0")
    (checkout / ".venv" / "bin").mkdir(parents=True)
    result = run_setup(checkout, "--python", str(other))
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"error: {other} is not a Python 3.11, 3.12 or 3.13")


def test_probe_tells_a_fitting_interpreter_from_others(setup_modules: Modules, tmp_path: Path) -> None:
    probe = setup_modules["pythons"].probe
    assert probe(sys.executable) == HERE
    assert probe(tmp_path / "absent") is None
    assert probe(write_program(tmp_path / "mute", "exit 0")) is None
    assert probe(write_program(tmp_path / "broken", "exit 1")) is None
    machine = os.uname().machine
    assert probe(write_program(tmp_path / "pypy", f"echo 3 11 pypy {machine} 0")) is None
    assert probe(write_program(tmp_path / "free", f"echo 3 13 cpython {machine} 1")) is None


def test_a_failing_download_is_tried_again_and_then_explained(
    setup_modules: Modules, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = setup_modules["running"]
    monkeypatch.setattr(running, "PAUSE_SECONDS", 0)
    tries = tmp_path / "tries"
    download = write_program(tmp_path / "download", f"echo once >> {tries}; exit 1")
    with pytest.raises(running.SetupError, match="fetching it failed"):
        running.attempt([str(download)], "fetching it")
    assert tries.read_text(encoding="utf-8").splitlines() == ["once"] * running.ATTEMPTS


def test_what_is_missing_is_told_as_the_command_that_mends_it(
    setup_modules: Modules, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = setup_modules["linux_libraries"]
    parts = [
        libraries.Missing("libEGL.so.1", "libegl1", True),
        libraries.Missing("a font", "fonts-dejavu-core", True),
    ]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert libraries.remedy(parts) == "install what provides libEGL.so.1, a font"
    write_program(tmp_path / "apt-get", "exit 0")
    assert libraries.remedy(parts).endswith(
        "apt-get install -y --no-install-recommends libegl1 fonts-dejavu-core"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="a Mac brings its own libraries")
def test_a_machine_that_was_set_up_lacks_nothing_it_needs(setup_modules: Modules) -> None:
    assert [part for part in setup_modules["linux_libraries"].missing_parts() if part.needed] == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has libraries to look for")
def test_an_absent_library_is_noticed(setup_modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = setup_modules["linux_libraries"]
    monkeypatch.setitem(libraries.QT_LIBRARIES, "libmlxr-absent.so.9", "no-such-package")
    assert libraries.Missing("libmlxr-absent.so.9", "no-such-package", True) in libraries.missing_parts()


def test_the_index_that_pip_uses_is_handed_to_uv(
    setup_modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv_tool = setup_modules["uv_tool"]
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    monkeypatch.delenv("UV_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "http://localhost/simple")
    assert uv_tool.uv_environment()["UV_DEFAULT_INDEX"] == "http://localhost/simple"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://localhost/own")
    assert uv_tool.uv_environment()["UV_DEFAULT_INDEX"] == "http://localhost/own"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a C library to choose")
def test_an_old_c_library_is_named(setup_modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    setup, libraries = setup_modules["setup"], setup_modules["linux_libraries"]
    setup.check_machine()
    monkeypatch.setitem(libraries.OLDEST_GLIBC, os.uname().machine, (99, 1))
    with pytest.raises(setup.SetupError, match=r"needs glibc 99\.1"):
        setup.check_machine()


@pytest.mark.parametrize(
    ("arm64", "release", "complaint"),
    [("1", "14.0", None), ("1", "26.1", None), ("1", "13.7", "macOS 13.7"), ("0", "14.5", "Intel processor")],
)
def test_a_mac_is_judged_by_its_hardware_and_system(
    setup_modules: Modules,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arm64: str,
    release: str,
    complaint: str | None,
) -> None:
    setup = setup_modules["setup"]
    write_program(tmp_path / "sysctl", f"echo {arm64}")
    write_program(tmp_path / "sw_vers", f"echo {release}")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "platform", "darwin")
    if complaint is None:
        setup.check_machine()
        return
    with pytest.raises(setup.SetupError, match=complaint):
        setup.check_machine()
