"""`mlxr rm`: it says what will be, asks, does it, and says what was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.amounts import size
from app.downloads.journal import Journal
from app.downloads.wanted import Wanted
from app.paths import default_paths
from tests.app.cli.conftest import Run, StartTerminal, TerminalProcess
from tests.engine.loading.gguf.writer import write_gguf_model
from tests.fakes.models_elsewhere import cache_revision
from tests.hub.fixtures import HubHome
from tests.hub.fixtures import hub_home as hub_home
from tests.hub.repos import HubFile, Repo
from tests.hub.server import HubServer


@pytest.fixture
def mine(tmp_path: Path, mlxr_here: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An imported model, and a home with nothing else in it."""
    from huggingface_hub import constants

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home" / "hf"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hf" / "hub"))
    write_gguf_model(tmp_path / "tiny.gguf")
    assert mlxr_here("import", tmp_path / "tiny.gguf").returncode == 0
    return tmp_path / "tiny.gguf"


@pytest.fixture
def hub(hub_home: HubHome) -> Iterator[HubServer]:
    """A hub that `mlxr pull` uses here."""
    with HubServer() as server:
        hub_home.connect(server)
        yield server


def test_files_of_the_users_stay_unless_he_says_so(mlxr_here: Run, mine: Path) -> None:
    done = mlxr_here("rm", "tiny", "--yes")
    assert done.stdout == "tiny is forgotten; its files stay\n"
    assert f"is only forgotten; {size(mine.stat().st_size)} in {mine} stay" in done.stderr
    assert mine.exists()
    assert "tiny" not in mlxr_here("models").stdout


def test_with_files_they_go_and_the_bytes_are_said_before_and_after(mlxr_here: Run, mine: Path) -> None:
    freed = mine.stat().st_size
    done = mlxr_here("rm", "TINY", "--files", "--yes", "--json")
    assert json.loads(done.stdout) == {"name": "tiny", "freed": freed, "deleted": True}
    assert f"tiny: {size(freed)} will be freed by deleting {mine}" in done.stderr
    assert not mine.exists()
    assert "tiny" not in mlxr_here("models").stdout


def test_where_nobody_can_be_asked_nothing_is_done(mlxr: Run, mine: Path) -> None:
    done = mlxr("rm", "tiny", "--files")
    assert done.returncode == 2
    assert "say --yes if this is meant" in done.stderr
    assert mine.exists()


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("", 1), ("y", 0)])
def test_a_person_is_asked(mine: Path, answer: str, code: int) -> None:
    terminal = TerminalProcess("rm", "tiny", "--files")
    terminal.wait_for(f"{size(mine.stat().st_size)} will be freed")
    terminal.wait_for("Do it? [y/N] ")
    terminal.type(f"{answer}\n")
    assert terminal.end() == code
    assert mine.exists() == bool(code)


@pytest.mark.long
@pytest.mark.parametrize(("key", "code"), [("\x03", 130), ("\x04", 1)])
def test_whoever_ends_the_question_finds_his_shell_at_the_start_of_a_line(
    mine: Path, terminal: StartTerminal, key: str, code: int
) -> None:
    running = terminal("rm", "tiny", "--files")
    running.wait_for("Do it? [y/N] ")
    running.type(key)
    assert running.end() == code
    assert running.screen.endswith("\r\n")
    assert running.screen.count("Do it? [y/N]") == 1
    assert mine.exists()


def test_unknown_names_and_the_guide_are_refused(mlxr_here: Run, mine: Path) -> None:
    for name, says in (("tyni", "did you mean tiny?"), ("guide", "part of MLXR")):
        done = mlxr_here("rm", name, "--yes")
        assert done.returncode == 1
        assert says in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_place_that_was_imported_is_looked_at_no_more(mlxr_here: Run, mine: Path) -> None:
    inner = mine.parent / "in" / "other.gguf"
    inner.parent.mkdir()
    write_gguf_model(inner)
    assert mlxr_here("import", mine.parent).returncode == 0
    done = mlxr_here("rm", f"{inner.parent}/..", "--yes", "--json")
    assert json.loads(done.stdout) == {"path": str(mine.parent), "forgotten": ["other"]}
    listed = mlxr_here("models", "--all").stdout
    assert "other" not in listed
    assert "tiny" in listed, "it was imported by itself too"
    assert inner.exists()
    assert "has no model of this name" in mlxr_here("rm", mine.parent, "--yes").stderr
    assert mlxr_here("import", inner).stdout.startswith("other: "), "it can come back"


def test_a_repository_without_a_model_goes_by_its_name(mlxr_here: Run, mine: Path, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "pytorch_model.bin").write_bytes(b"\x80" * 2_000_000)
    cache = tmp_path / "home" / "hf" / "hub"
    folder = cache_revision(cache, "some/pickled", "a" * 40, tmp_path / "files").parent.parent
    assert "1 is not whole or not readable" in mlxr_here("models").stdout
    told = mlxr_here("models", "--all").stdout
    assert f"some/pickled: {folder} (2.0 MB)" in told
    assert "`mlxr rm` with its repository or path" in told
    (left,) = json.loads(mlxr_here("models", "--json").stdout)["left_out"]
    assert (left["repository"], left["bytes"]) == ("some/pickled", 2_000_000)
    done = mlxr_here("rm", "some/pickled", "--yes")
    assert f"some/pickled: 2.0 MB will be freed by deleting {folder}" in done.stderr
    assert done.stdout == "some/pickled is deleted: 2.0 MB freed\n"
    assert not folder.exists()
    again = mlxr_here("rm", "some/pickled", "--yes")
    assert again.returncode == 1
    assert "no model of this name" in again.stderr
    assert mine.exists()


@pytest.mark.parametrize("asked", ["some/begun", "Some/Begun"])  # one folder on a Mac's disk
def test_what_an_abandoned_download_left_goes_by_its_repositorys_name(
    mlxr_here: Run, mine: Path, asked: str
) -> None:
    from huggingface_hub import constants

    blobs = Path(constants.HF_HUB_CACHE) / "models--some--begun" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "abc.incomplete").write_bytes(bytes(3_000_000))
    with closing(Journal(default_paths().downloads)) as journal:
        entry = journal.add(Wanted(asked))
        waits = mlxr_here("rm", "some/begun", "--yes")
        assert waits.returncode == 1
        assert f"`mlxr pull {asked} --cancel` gives it up" in waits.stderr
        journal.forget(entry.id)
    assert mlxr_here("rm", "some/begun", "--yes").stdout == "some/begun is deleted: 3.0 MB freed\n"
    assert not blobs.parent.exists()
    assert mine.exists()


def test_a_repository_goes_by_its_name_too(
    mlxr_here: Run, mine: Path, hub: HubServer, random_model: Path
) -> None:
    hub.update(Repo.from_folder("org/Tiny-1B", random_model))
    assert mlxr_here("pull", "org/Tiny-1B").returncode == 0
    (snapshot,) = hub_folder("org/Tiny-1B").glob("snapshots/*")
    wrong = mlxr_here("rm", "ORG/tiny-1b", "--yes")
    assert wrong.returncode == 1
    assert "did you mean tiny-1b?" in wrong.stderr
    done = mlxr_here("rm", "org/Tiny-1B", "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tiny-1b is deleted: ")
    assert not snapshot.exists()
    assert "tiny-1b" not in mlxr_here("models").stdout
    assert mine.exists()


def test_of_several_models_in_a_repository_the_choice_says_which(
    mlxr_here: Run, mine: Path, hub: HubServer
) -> None:
    content = mine.read_bytes()
    names = ("m-Q4_K_M.gguf", "m-Q8_0.gguf")
    hub.update(Repo("org/two", {name: HubFile(content + name.encode(), lfs=True) for name in names}))
    for choice in ("q4_k_m", "q8_0"):
        assert mlxr_here("pull", f"org/two:{choice}").returncode == 0
    both = mlxr_here("rm", "org/two", "--yes")
    assert both.returncode == 1
    assert both.stderr.count("\n") == 1
    assert "name one behind a colon, such as org/two:q4_k_m; there is q4_k_m, q8_0" in both.stderr
    other = mlxr_here("rm", "org/two:q5_k_m", "--yes")
    assert other.returncode == 1
    assert "there is q4_k_m, q8_0" in other.stderr
    assert mlxr_here("rm", "org/two:Q8_0", "--yes").stdout.startswith("m:q8_0 is deleted: ")
    assert [path.name for path in hub_folder("org/two").glob("snapshots/*/*")] == ["m-Q4_K_M.gguf"]
    assert mlxr_here("rm", "org/two", "--yes").stdout.startswith("m:q4_k_m is deleted: "), (
        "now it is the only one"
    )
    assert mine.exists()


def test_a_repository_whose_files_are_gone_is_forgotten_by_its_name(
    mlxr_here: Run, mine: Path, hub: HubServer, random_model: Path
) -> None:
    hub.update(Repo.from_folder("org/gone", random_model))
    assert mlxr_here("pull", "org/gone").returncode == 0
    assert "gone" in mlxr_here("models").stdout
    shutil.rmtree(hub_folder("org/gone"))
    done = mlxr_here("rm", "org/gone", "--yes")
    assert done.stdout == "gone is forgotten; its files stay\n"
    assert "files are gone already; it is only forgotten" in done.stderr


def hub_folder(repo: str) -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"
