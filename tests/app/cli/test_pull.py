"""`mlxr pull` as people meet it: progress, pausing, going on, results and mistakes."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import snapshot_download

from app.amounts import size
from app.cli.pull_words import PullWords, progress_words
from app.cli.terminal import Terminal
from app.downloads.events import Progress
from app.downloads.wanted import Wanted
from app.errors import ModelNotFound
from app.model_location import locate
from app.paths import default_paths
from app.settings import SettingsFile
from tests.app.cli.conftest import Run, StartTerminal
from tests.app.downloads.stage import gguf_repo, model_repo
from tests.hub.faults import Fault
from tests.hub.fixtures import HubHome
from tests.hub.fixtures import hub_home as hub_home
from tests.hub.repos import Repo
from tests.hub.server import HubServer
from tests.hub.store import Account

FILE = "model.safetensors"


@pytest.fixture
def hub(hub_home: HubHome) -> Iterator[HubServer]:
    """A hub that `mlxr` uses, here and in processes of its own."""
    tokens: dict[str, Account] = {"hf_good": {"name": "me", "may_read": {"org/gated"}}}
    with HubServer([model_repo(weights=300_000), gguf_repo()], tokens) as server:
        hub_home.connect(server)
        yield server
        server.faults.clear()


def test_a_pulled_model_is_chatted_with_by_its_name(
    hub: HubServer, mlxr: Run, mlxr_here: Run, random_model: Path
) -> None:
    hub.update(Repo.from_folder("someone/tiny", random_model))
    done = mlxr_here("pull", "someone/tiny")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "chat with it: mlxr chat --model someone/tiny"
    hub.is_offline = True
    answer = mlxr("chat", "--model", "someone/tiny", "--max-tokens", 3, "hello")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip()


def test_in_a_pipe_lines_tell_what_happens(hub: HubServer, mlxr_here: Run) -> None:
    hub.faults.add(Fault(FILE, "cut", at=100_000))
    done = mlxr_here("pull", "org/model")
    assert done.returncode == 0
    first, again = done.stderr.splitlines()
    assert first.startswith("org/model: 4 files, 300 kB, commit ")
    assert again.startswith("model.safetensors: the connection to the mirror http://127.0.0.1:")
    assert " broke off; trying again in " in again
    assert done.stdout.startswith("org/model: 4 files, 300 kB, verified, in ")


def test_the_result_as_json(hub: HubServer, hub_home: HubHome, mlxr_here: Run) -> None:
    result = json.loads(mlxr_here("pull", "org/model-GGUF:Q2_K", "--json").stdout)
    assert result["repo"] == "org/model-GGUF"
    assert Path(result["path"]).stat().st_size == result["bytes"] == result["fetched_bytes"] == 300_000
    assert Path(result["path"]).is_relative_to(hub_home.cache)
    assert [file["name"] for file in result["files"]] == ["m-Q2_K.gguf"]


def test_ctrl_c_pauses_and_the_same_command_goes_on(
    hub: HubServer, terminal: StartTerminal, mlxr_here: Run
) -> None:
    stall = Fault(FILE, "stall", at=200_000)
    hub.faults.add(stall)
    running = terminal("pull", "org/model")
    running.wait_for("200 kB of 300 kB")
    running.type("\x03")
    running.wait_for("org/model: paused; `mlxr pull org/model` goes on where it stopped")
    assert running.end() == 130
    assert "Traceback" not in running.screen
    done = mlxr_here("pull")
    assert done.returncode == 0
    assert "200 kB are there already" in done.stderr
    assert hub.bytes_sent("org/model", FILE) == 300_000
    assert mlxr_here("pull").stderr.startswith("no download is unfinished")


def test_what_a_killed_process_had_is_kept(hub: HubServer, terminal: StartTerminal, mlxr_here: Run) -> None:
    hub.faults.add(Fault(FILE, "stall", at=200_000))
    running = terminal("pull", "org/model")
    running.wait_for("200 kB of 300 kB")
    running.process.send_signal(signal.SIGKILL)
    running.end()
    assert mlxr_here("pull").returncode == 0
    assert hub.bytes_sent("org/model", FILE) == 300_000


def test_giving_up(hub: HubServer, hub_home: HubHome, mlxr_here: Run) -> None:
    hub.faults.add(Fault(FILE, "cut", at=200_000), Fault(FILE, "status", status=403, skip=2, times=None))
    assert mlxr_here("pull", "org/model").returncode == 1
    assert list(hub_home.cache.rglob("*.mlxr-part"))
    done = mlxr_here("pull", "org/model", "--cancel")
    assert done.returncode == 0
    assert "given up" in done.stderr
    assert not list(hub_home.cache.rglob("*.mlxr-part"))
    assert mlxr_here("pull", "--cancel").stderr == "no download is unfinished\n"
    assert "no download is unfinished" in mlxr_here("pull").stderr


def test_giving_up_takes_a_repository_and_says_what_else_there_is(hub: HubServer, mlxr_here: Run) -> None:
    hub.is_offline = True
    mlxr_here("pull", "org/model-GGUF:Q2_K")
    mlxr_here("pull", "org/model-GGUF:q2_k", "--revision", "v2")
    done = mlxr_here("pull", "org/model", "--cancel")
    assert done.returncode == 1
    unfinished = "org/model-GGUF:q2_k, org/model-GGUF:q2_k"
    assert done.stderr == f"error: no download of org/model is unfinished; unfinished: {unfinished}\n"
    assert mlxr_here("pull", "org/model-GGUF", "--cancel").stderr.count("given up") == 2
    assert "unfinished; none is" in mlxr_here("pull", "org/model-GGUF", "--cancel").stderr


def test_the_page_of_a_gguf_file_asks_for_that_file(hub: HubServer, mlxr_here: Run) -> None:
    page = f"{hub.url}/org/model-GGUF/blob/main/m-Q2_K.gguf?download=true"
    assert "/m-Q2_K.gguf" in mlxr_here("pull", page).stdout.splitlines()[0]


def test_of_several_each_failure_is_told(hub: HubServer, mlxr_here: Run) -> None:
    hub.is_offline = True
    mlxr_here("pull", "org/model")
    mlxr_here("pull", "org/model-GGUF:q2_k")
    done = mlxr_here("pull")
    assert done.returncode == 1
    errors = done.stderr.splitlines()
    assert len(errors) == 2
    assert all(line.startswith("error: ") and "goes on where it stopped" in line for line in errors)
    assert "`mlxr pull org/model-GGUF:q2_k`" in done.stderr
    hub.is_offline = False
    assert mlxr_here("pull").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nothing"], 1, "has no nothing"),
        (["org/nobody"], 1, "has no org/nobody"),
        (["org/model", "--file", "nope"], 1, "has no file 'nope'; it has README.md"),
        (["org/model", "--revision", "gone"], 1, "org/model"),
        (["org/model-GGUF:q9"], 1, "there is q2_k, q4_k_m, q8_0"),
        (["a b/c"], 2, "is no repository"),
        (["--file", "x"], 2, "belong to a repository"),
        (["org/model", "--file", "../x"], 2, "leads out of its folder"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], code: int, says: str, hub: HubServer, mlxr_here: Run
) -> None:
    done = mlxr_here("pull", *arguments)
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "no download is unfinished" in mlxr_here("pull").stderr, "it is not tried again for ever"


def test_progress_in_words() -> None:
    event = Progress(1, "m.gguf", 1_200_000_000, 15_000_000_000, 30_000_000.0, 460.0)
    assert progress_words(event) == "1.2 GB of 15.0 GB, 30.0 MB/s, 7 min 40 s left"
    assert progress_words(Progress(1, "m.gguf", 0, 1000, 0.0, None)) == f"0 bytes of {size(1000)}"


def test_each_of_several_models_in_a_repository_has_a_name(hub: HubServer, mlxr_here: Run) -> None:
    for choice in ("q2_k", "Q8_0"):
        done = mlxr_here("pull", f"org/model-GGUF:{choice}")
        assert done.stdout.endswith(f"chat with it: mlxr chat --model org/model-GGUF:{choice.lower()}\n")
    assert locate("org/model-GGUF:q8_0").name == "m-Q8_0-00001-of-00002.gguf"
    assert locate("org/model-GGUF:q2_k").name == "m-Q2_K.gguf"
    with pytest.raises(ModelNotFound, match="`mlxr pull org/model-GGUF:q4_k_m` downloads it"):
        locate("org/model-GGUF:q4_k_m")


def test_what_another_program_left_out_does_not_hide_a_model(
    hub: HubServer, hub_home: HubHome, mlxr_here: Run
) -> None:
    snapshot_download("org/model", allow_patterns="config.json")  # notes all files there are in the cache
    assert mlxr_here("pull", "org/model").returncode == 0
    assert (locate("org/model") / FILE).stat().st_size == 300_000


def test_in_a_pipe_progress_is_a_line_now_and_then() -> None:
    err, now = io.StringIO(), 100.0
    words = PullWords(Terminal(io.StringIO(), err, {}), lambda: now)
    event = Progress(1, "m.gguf", 1_200_000_000, 15_000_000_000, 30_000_000.0, 460.0)
    for now in (100.1, 105.0, 110.5, 111.0, 121.0):  # noqa: B007  the clock reads it
        words.tell(event, Wanted("org/model"))
    line = "org/model: 1.2 GB of 15.0 GB, 30.0 MB/s, 7 min 40 s left"
    assert err.getvalue().splitlines() == [line, line]


def test_a_token_that_is_none_is_told_and_not_shown(
    hub: HubServer, mlxr_here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_two words")
    done = mlxr_here("pull", "org/model")
    assert done.returncode == 1
    assert "HF_TOKEN holds no token: there are spaces" in done.stderr
    assert "words" not in done.stderr
    assert not hub.requests


def test_a_gated_model_says_where_its_licence_is_accepted(
    hub: HubServer, mlxr_here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.update(Repo("org/gated", model_repo().files, gated="manual"))
    done = mlxr_here("pull", "org/gated")
    assert done.returncode == 1
    assert f"accept its licence at {hub.url}/org/gated" in done.stderr
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    assert mlxr_here("pull").returncode == 0


def test_of_several_models_of_a_repository_one_is_to_be_named(hub: HubServer, mlxr_here: Run) -> None:
    for quant in ("q2_k", "q8_0"):
        assert mlxr_here("pull", f"org/model-GGUF:{quant}").returncode == 0
        if quant == "q2_k":
            assert locate("org/model-GGUF").is_dir()
    with pytest.raises(ModelNotFound, match="such as org/model-GGUF:q2_k; there is q2_k, q8_0"):
        locate("org/model-GGUF")


@pytest.mark.long
def test_as_many_files_come_at_once_as_the_windows_settings_say(
    hub: HubServer, terminal: StartTerminal
) -> None:
    SettingsFile(default_paths().settings).update(lambda settings: replace(settings, files_at_once="1"))
    hub.faults.add(Fault("m-Q8_0-*.gguf", "stall", at=10_000, times=None))
    running = terminal("pull", "org/model-GGUF:q8_0")
    running.wait_for("10.0 kB of 600 kB")
    running.type("\x03")
    assert running.end() == 130
    sent = [hub.bytes_sent("org/model-GGUF", f"m-Q8_0-0000{part}-of-00002.gguf") for part in (1, 2)]
    assert sorted(sent) == [0, 10_000]


@pytest.mark.long
def test_an_error_begins_a_line_of_its_own(hub: HubServer, terminal: StartTerminal) -> None:
    running = terminal("pull", "org/nothing")
    assert running.end() == 1
    assert "asking what there is\x1b[0m\r\x1b[Kerror: " in running.screen
