"""Every subcommand does in the frozen app what it does in the checkout, call by call."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.cli.commands import COMMANDS
from app.model_location import GUIDE
from tests.app.downloads.stage import model_repo
from tests.hub.server import HubServer
from tests.packaging.frozen_app import Mlxr

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "What is MLXR?"
REQUEST = {"id": "one", "prompt": PROMPT, "max_tokens": 12, "temperature": 0}

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="the Mac's app is another one"),
]

Pick = Callable[[str], Any]
"""What of a command's standard output must be the same."""


def plain(output: str) -> str:
    """All of it, but for figures."""
    return re.sub(r"\d[\d.,]*( ?[kMG]B)?", "#", output)


def findings(output: str) -> str:
    """All of it, but for figures and the line that only the app has: whether all of it is there."""
    return "".join(line for line in plain(output).splitlines(keepends=True) if line.split()[:1] != ["app"])


def answers(output: str) -> list[dict[str, Any]]:
    """The answers among JSON lines."""
    found = [json.loads(line) for line in output.splitlines()]
    return [{key: one[key] for key in ("prompt_tokens", "tokens", "text")} for one in found if "text" in one]


def rows(output: str) -> list[tuple[str, str]]:
    """What was measured, and in which unit."""
    return [(row["what"], row["unit"]) for row in json.loads(output)["rows"]]


def files(output: str) -> dict[str, Any]:
    """The kernels' files, of which there are some."""
    texts = json.loads(output)["texts"]
    assert set(texts) == {path.name for path in (ROOT / "metal").glob("*.metal")}
    return texts


CALLS: dict[str, tuple[tuple[Pick, str], ...]] = {
    "chat": ((str, f"chat --model guide --temperature 0 --max-tokens 12 '{PROMPT}'"),),
    "generate": ((answers, f"generate --model guide --temperature 0 --json --prompt '{PROMPT}'"),),
    "models": ((plain, "models --all"),),
    "import": ((plain, "import copy"),),
    "rm": ((plain, "import copy"), (plain, "rm copy --yes")),
    "pull": ((str, "pull someone/tiny"),),
    "convert": ((str, "convert copy packed --quant q8"),),
    "doctor": ((findings, "doctor --model copy"),),
    "bench": (
        (rows, "bench --vs none --no-window --pairs 1 --contexts 16 --prompts none --decode 4 --json"),
    ),
    "top": ((str, "top --once"),),
    "replay": ((answers, "replay requests.jsonl --model guide --json"),),
    "kernels": ((files, "kernels --json"), (str, "kernels")),
}
"""For each subcommand what is called, in turn in one home, and what of the output must be the same."""


def furnished(mlxr: Mlxr) -> Mlxr:
    """The same, its home with a model and requests that the calls name."""
    shutil.copytree(GUIDE, mlxr.home / "copy")
    (mlxr.home / "requests.jsonl").write_text(json.dumps(REQUEST) + "\n", encoding="utf-8")
    return mlxr


def outcome(mlxr: Mlxr, pick: Pick, call: str, places: dict[str, str]) -> tuple[int, Any, str]:
    """Exit code, what is picked of the output, and the errors, with names for places."""
    done = mlxr.run(*shlex.split(call))
    out, err = done.stdout, done.stderr.split("\r")[-1]  # progress is written over
    for place, name in places.items():
        out, err = out.replace(place, name), err.replace(place, name)
    return done.returncode, pick(out) if done.returncode == 0 else out, err


def test_every_subcommand_is_called() -> None:
    assert set(CALLS) == {spec.name for spec in COMMANDS}


@pytest.mark.parametrize("command", CALLS)
def test_a_subcommand_does_what_it_does_in_the_checkout(
    command: str, frozen: Mlxr, unfrozen: Mlxr, frozen_folder: Path
) -> None:
    there = {str(frozen_folder / "mlxr"): "PROGRAM", str(frozen_folder / "lib"): "CODE"}
    here = {sys.executable: "PROGRAM", str(ROOT): "CODE"}
    for mlxr, places in ((frozen, there), (unfrozen, here)):
        furnished(mlxr)
        places[str(mlxr.home)] = "HOME"
    for pick, call in CALLS[command]:
        assert outcome(frozen, pick, call, there) == outcome(unfrozen, pick, call, here)
    written = {path.name: path.read_bytes() for path in (unfrozen.home / "packed").glob("*")}
    assert {path.name: path.read_bytes() for path in (frozen.home / "packed").glob("*")} == written


def test_help_and_version_are_the_same(frozen: Mlxr, unfrozen: Mlxr) -> None:
    for arguments in (("--help",), ("--version",), ("no-such-command",)):
        there, here = frozen.run(*arguments), unfrozen.run(*arguments)
        assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)


@pytest.fixture
def online(frozen_folder: Path, tmp_path: Path) -> Iterator[Mlxr]:
    """The frozen app with a network, where a hub is the Hub."""
    mlxr = Mlxr([str(frozen_folder / "mlxr")], tmp_path / "online")
    with HubServer([model_repo(weights=300_000)], {}) as hub:
        yield Mlxr(["/usr/bin/env", f"HF_ENDPOINT={hub.url}", str(frozen_folder / "mlxr")], mlxr.home)


def test_a_model_is_downloaded(online: Mlxr) -> None:
    """Which needs the parts of a network's client that are found by name: its certificates among them."""
    done = online.run("pull", model_repo().id)
    assert done.returncode == 0, done.stderr
    assert model_repo().id in online.run("models", "--all").stdout
