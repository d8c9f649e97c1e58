"""The workflows: what they call is there, and they cover what is promised."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
}
MATRIX_VALUE = re.compile(r"\$\{\{ matrix\.(\w+) \}\}")


def variants(job: dict[str, Any]) -> list[dict[str, str]]:
    return job.get("strategy", {}).get("matrix", {}).get("include", [{}])


def commands() -> list[str]:
    """Each line that a step runs, once for each variant of its job."""
    found: list[str] = []
    for workflow in WORKFLOWS.values():
        for job in workflow["jobs"].values():
            text = "\n".join(step.get("run", "") for step in job["steps"]).replace("\\\n", " ")
            for variant in variants(job):
                filled = MATRIX_VALUE.sub(lambda name, variant=variant: str(variant[name[1]]), text)
                found += filter(None, map(str.strip, filled.splitlines()))
    return found


def words_after(program: str) -> set[str]:
    return {found[1] for line in commands() for found in re.finditer(rf"(?:^|\s){program} ([\w./-]+)", line)}


def test_every_make_target_is_one() -> None:
    targets = words_after("make")
    assert {"setup", "app", "dmg"} <= targets
    for target in targets:
        result = subprocess.run(
            ["make", "--dry-run", "--no-print-directory", target],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, f"make {target}: {result.stderr}"


@pytest.mark.parametrize("macos", ["14", "26"])
def test_make_builds_and_images_with_these_files_on_a_mac(macos: str) -> None:
    command = ["make", "--dry-run", "--no-print-directory", "SYSTEM=Darwin", f"MACOS={macos}", "dmg"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    commands = [line.split() for line in lines[-2:]]
    assert [command[:2] for command in commands] == [[f"MLXR_MACOS={macos}", ".venv/bin/python"]] * 2
    build, image = (command[2:] for command in commands)
    assert build == ["packaging/macos/freezing.py"]
    folder = f"build/app/macos{macos}"
    assert image == [
        "packaging/macos/disk_image.py",
        f"{folder}/MLXR.app",
        f"build/app/MLXR-macos{macos}-arm64.dmg",
    ]
    assert (ROOT / build[0]).is_file()
    assert (ROOT / image[0]).is_file()


@pytest.mark.skipif(sys.platform == "darwin", reason="it says what it needs where that is not")
def test_make_dmg_says_in_one_line_that_it_needs_a_mac() -> None:
    result = subprocess.run(["make", "dmg"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == "error: make dmg needs a Mac: codesign, hdiutil and the Finder"


def test_every_mlxr_command_is_one() -> None:
    names = words_after(r"\.venv/bin/mlxr")
    assert "kernels" in names
    for name in names:
        command = [sys.executable, "-m", "app", name, "--help"]
        assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


def test_every_path_they_name_is_there() -> None:
    programs = (r"\.venv/bin/pytest", "python3", "sudo python3", "build/release/bin/python")
    options = ("--constraints", "--pyproject", "--notes-file")
    tools = (*programs, *options)
    paths = {path for tool in tools for path in words_after(tool) if not path.startswith("-")}
    assert {"packaging/linux_libraries.py", "packaging/manifest.py", "tests/metal"} <= paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert (ROOT / ".ci" / "run").exists()
    assert ".ci/run" in commands()


def test_every_python_and_system_that_is_promised_is_tried() -> None:
    tried = {
        (one["os"].partition("-")[0], one["python"]) for one in variants(WORKFLOWS["test"]["jobs"]["test"])
    }
    assert tried >= {("ubuntu", "3.11"), ("ubuntu", "3.12"), ("ubuntu", "3.13"), ("macos", "3.12")}
    assert ".venv/bin/mlxr kernels --check | tee kernels-check.txt" in commands()


@pytest.mark.parametrize("name", WORKFLOWS)
def test_jobs_end_and_actions_have_a_version(name: str) -> None:
    for job in WORKFLOWS[name]["jobs"].values():
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert "uses" not in step or re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])


def test_only_a_tag_makes_a_release_and_of_what_was_built() -> None:
    job = WORKFLOWS["app"]["jobs"]["release"]
    assert job["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert job["needs"] == "build"
    assert WORKFLOWS["app"]["permissions"] == {"contents": "read"}
    assert job["permissions"] == {"contents": "write", "id-token": "write", "attestations": "write"}
    steps = [step.get("uses", step.get("name", "")).partition("@")[0] for step in job["steps"]]
    listed = "list of releases and download page"
    wanted = ["actions/download-artifact", listed, "checksums", "actions/attest-build-provenance", "release"]
    assert [step for step in steps if step in wanted] == wanted


def test_each_file_of_a_release_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made by a job that keeps it, on the system that it is for, under the name that the list gives it."""
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    from manifest import FILES

    made = {one["name"]: one for one in variants(WORKFLOWS["app"]["jobs"]["build"])}
    assert [one["os"] for one in made.values()] == ["ubuntu-24.04", "macos-14", "macos-26"]
    for system, file in FILES.items():
        one = made[system.partition("-")[0]]
        assert Path(f"build/app/{file}").match(one["files"])
        assert (
            one["target"].endswith(f"MACOS={one['name'].removeprefix('macos')}") or system == "linux-x86_64"
        )
    for name in ("manifest", "download_page"):
        sys.modules.pop(name, None)


def test_the_tag_is_held_to_the_version(tmp_path: Path) -> None:
    from app import VERSION

    (step,) = (
        step
        for step in WORKFLOWS["app"]["jobs"]["release"]["steps"]
        if step.get("name") == "the tag is the version"
    )
    for tag, code in ((f"v{VERSION}", 0), ("v99.0.0", 1)):
        environment = {"GITHUB_REF_NAME": tag, "PATH": "/usr/bin:/bin"}
        assert (
            subprocess.run(["bash", "-c", step["run"]], cwd=ROOT, env=environment, check=False).returncode
            == code
        )
