"""`mlxr models`: what is listed, renamed and marked, at any width and as JSON."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from app.amounts import size
from app.cli.columns import Column, table
from app.downloads.journal import Journal
from app.downloads.wanted import Wanted
from app.paths import default_paths
from app.settings import SettingsFile
from tests.app.cli.conftest import Run, TerminalProcess
from tests.engine.loading.gguf.writer import write_gguf_model
from tests.fakes.models_elsewhere import cache_revision
from tests.hub.faults import Fault
from tests.hub.fixtures import HubHome
from tests.hub.fixtures import hub_home as hub_home
from tests.hub.repos import HubFile, Repo
from tests.hub.server import HubServer


@pytest.fixture(autouse=True)
def _nothing_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home with nothing of other tools in it."""
    from huggingface_hub import constants

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hub"))


@pytest.fixture
def mine(tmp_path: Path, mlxr_here: Run, random_model: Path) -> Path:
    """Three imported models: two that run here and one that does not."""
    folder = tmp_path / "mine"
    shutil.copytree(random_model, folder / "Random")
    write_gguf_model(folder / "Tiny-Chat.Q8_0.gguf")
    other = shutil.copytree(random_model, folder / "Strange")
    config = json.loads((other / "config.json").read_text()) | {"model_type": "mamba"}
    (other / "config.json").write_text(json.dumps(config))
    assert mlxr_here("import", folder).returncode == 0
    return folder


def rows(text: str) -> dict[str, str]:
    """The table's lines by the names in them."""
    return {line.split()[0]: line for line in text.splitlines()[1:] if line and not line.startswith(" ")}


def size_of(mine: Path) -> list[str]:
    """The words of the GGUF file's size."""
    return size((mine / "Tiny-Chat.Q8_0.gguf").stat().st_size).split()


def test_the_table_tells_what_there_is(mlxr_here: Run, mine: Path) -> None:
    done = mlxr_here("models")
    assert done.returncode == 0
    listed = rows(done.stdout)
    assert list(listed)[:3] == ["guide", "random", "tiny-chat:q8_0"]
    assert listed["tiny-chat:q8_0"].split() == (
        ["tiny-chat:q8_0", "llama", *size_of(mine), "134k", "Q8_0", "1k", "yes", "folder", "–"]
    )
    assert "1 more cannot be run here; `mlxr models --all` says why" in done.stdout
    everything = mlxr_here("models", "--all").stdout
    assert "not run" in rows(everything)["strange"]
    assert "model_type is 'mamba'" in everything


def test_what_is_not_whole_is_no_model_and_said(mlxr_here: Run, mine: Path) -> None:
    (mine / "half.gguf").write_bytes((mine / "Tiny-Chat.Q8_0.gguf").read_bytes()[:5000])
    done = mlxr_here("models", "--all")
    assert "half" not in rows(done.stdout)
    assert f"Left out:\n  {mine / 'half.gguf'} (5.0 kB)\n" in done.stdout
    report = json.loads(mlxr_here("models", "--json").stdout)
    assert [Path(one["path"]).name for one in report["left_out"]] == ["half.gguf"]


def test_files_that_went_away_are_shown_as_gone(mlxr_here: Run, mine: Path) -> None:
    file = mine / "Tiny-Chat.Q8_0.gguf"
    content = file.read_bytes()

    def opened() -> str:
        done = mlxr_here("generate", "--model", "tiny-chat:q8_0", "--prompt", "x")
        assert done.returncode == 1
        return done.stderr

    file.unlink()
    assert "its files are gone from" in opened()  # also before a scan has seen it
    assert " gone " in rows(mlxr_here("models").stdout)["tiny-chat:q8_0"]
    assert "its files are gone from" in opened()
    file.write_bytes(content[:-1])
    assert "damaged" in mlxr_here("models", "--all").stdout
    assert "is not whole any more" in opened()


def test_the_memory_that_is_set_for_chats_decides_what_fits(mlxr_here: Run, mine: Path) -> None:
    def budgets() -> list[int]:
        told = json.loads(mlxr_here("models", "--json").stdout)
        return [model["fits"]["kv_budget"] for model in told["models"] if model["fits"]]

    before = budgets()
    SettingsFile(default_paths().settings).update(lambda values: replace(values, kv_memory="1"))
    assert len(budgets()) == len(before)
    assert set(budgets()) == {10**9} != set(before)


def test_json_tells_everything(mlxr_here: Run, mine: Path) -> None:
    report = json.loads(mlxr_here("models", "--json").stdout)
    models = {model["name"]: model for model in report["models"]}
    assert set(models) == {"guide", "random", "strange", "tiny-chat:q8_0"}
    tiny = models["tiny-chat:q8_0"]
    assert tiny["path"] == str(mine / "Tiny-Chat.Q8_0.gguf")
    assert tiny["size"] == (mine / "Tiny-Chat.Q8_0.gguf").stat().st_size
    assert (tiny["source"], tiny["format"], tiny["state"], tiny["quantization"]) == (
        ("folder", "gguf", "here", "Q8_0")
    )
    assert tiny["fits"]["verdict"] == "fits"
    assert models["strange"]["fits"] is None
    assert "mamba" in models["strange"]["problem"]


def test_a_new_name_opens_the_model_and_the_old_one_does_not(mlxr_here: Run, mine: Path) -> None:
    assert mlxr_here("models", "--rename", "Tiny-Chat:q8_0", "Best").returncode == 0
    done = mlxr_here("generate", "--model", "BEST", "--prompt", "a", "--max-tokens", "2", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["tokens"]) == 2
    assert rows(mlxr_here("models").stdout)["Best"].endswith("today")
    gone = mlxr_here("generate", "--model", "tiny-chat:q8_0", "--prompt", "a")
    assert gone.returncode == 1
    assert "the library has no model of this name" in gone.stderr
    assert "did you mean Best?" in mlxr_here("generate", "--model", "bets", "--prompt", "a").stderr


@pytest.mark.parametrize(
    ("name", "new", "says"),
    [
        ("random", "tiny-chat:Q8_0", "another model is called tiny-chat:Q8_0"),
        ("random", "a/b", "cannot be a name"),
        ("random", "guide", "stands for something else"),
        ("nobody", "x", "no model of this name"),
    ],
)
def test_a_name_that_cannot_be_is_refused(mlxr_here: Run, mine: Path, name: str, new: str, says: str) -> None:
    done = mlxr_here("models", "--rename", name, new)
    assert done.returncode == 1
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert "random" in rows(mlxr_here("models").stdout)


def test_the_last_model_is_still_opened_after_it_got_another_name(mlxr_here: Run, mine: Path) -> None:
    file = SettingsFile(default_paths().settings)
    file.update(lambda values: replace(values, last_model="Random"))
    mlxr_here("models", "--rename", "random", "second")
    assert file.load().settings.last_model == "second"


def test_favourites_stand_in_front(mlxr_here: Run, mine: Path) -> None:
    assert (
        mlxr_here("models", "--favourite", "tiny-chat:q8_0").stdout.splitlines()[1].startswith("★ tiny-chat")
    )
    assert mlxr_here("models", "--no-favourite", "tiny-chat:q8_0").stdout.splitlines()[1].startswith("guide")


def test_one_model_is_told_in_full(mlxr_here: Run, mine: Path) -> None:
    done = mlxr_here("models", "random")
    assert f"path        {mine / 'Random'}\n" in done.stdout
    assert "context     200,000 tokens\n" in done.stdout


def test_a_model_is_told_changed_and_marked_by_whatever_opens_it(
    mlxr_here: Run, mine: Path, random_model: Path, tmp_path: Path
) -> None:
    snapshot = cache_revision(tmp_path / "home" / "hub", "some/One", "a" * 40, random_model)
    for spec in ("some/One", snapshot, mine / "Tiny-Chat.Q8_0.gguf", mine / "Random"):
        told = mlxr_here("models", spec)
        assert told.returncode == 0, told.stderr
        assert told.stdout.startswith("name ")
        path = snapshot if spec == "some/One" else spec
        assert f"path        {path}\n" in told.stdout
    assert mlxr_here("models", "--set", "some/One", "context=99").returncode == 0
    assert mlxr_here("models", "--favourite", "some/One").stdout.splitlines()[1].startswith("★ one ")
    assert mlxr_here("models", "--rename", "some/One", "Uno").returncode == 0
    told = json.loads(mlxr_here("models", "some/One", "--json").stdout)["models"][0]
    assert (told["name"], told["favourite"], told["settings"]["context"]) == ("Uno", True, 99)


@pytest.mark.parametrize(
    "spec", ["some/None", "no/such/folder", "./nothing.gguf", "{mine}", "x" * 5000 + "/y"]
)
def test_what_opens_nothing_is_said_in_one_line(mlxr_here: Run, mine: Path, spec: str) -> None:
    done = mlxr_here("models", spec.format(mine=mine))
    assert done.returncode == 1
    assert "has no model of this name" in done.stderr
    assert done.stderr.count("\n") == 1


def test_of_a_repository_without_a_whole_model_it_is_said_why(mlxr_here: Run, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "pytorch_model.bin").write_bytes(b"\x80" * 2_000_000)
    cache_revision(tmp_path / "home" / "hub", "some/pickled", "a" * 40, tmp_path / "files")
    done = mlxr_here("models", "some/pickled")
    assert done.returncode == 1
    assert "pickled weights only" in done.stderr
    assert "`mlxr rm some/pickled` deletes it" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_is_newer_on_the_hub_is_told_with_the_command_that_fetches_it(
    mlxr_here: Run, hub_home: HubHome, random_model: Path, tmp_path: Path
) -> None:
    write_gguf_model(tmp_path / "one.gguf")
    content = (tmp_path / "one.gguf").read_bytes()
    ggufs = {f"m-{quant}.gguf": HubFile(content + quant.encode(), lfs=True) for quant in ("Q4_K_M", "Q8_0")}
    with HubServer([Repo.from_folder("org/one", random_model), Repo("org/two", ggufs)]) as hub:
        hub_home.connect(hub)
        assert mlxr_here("models", "--updates").stdout == "none of these models came from the Hub\n"
        for wanted in ("org/one", "org/two:q8_0"):
            assert mlxr_here("pull", wanted).returncode == 0
        assert mlxr_here("models", "--updates").stdout == "all models are up to date\n"
        assert mlxr_here("models", "org/one", "--updates").stdout == "one is up to date\n"
        newer = hub.update(Repo("org/two", {**ggufs, "README.md": b"# new"}))
        told = mlxr_here("models", "--updates").stdout
        assert told.startswith(f"m:q8_0: there is a newer one, commit {newer[:7]}; ")
        assert told.endswith("; `mlxr pull org/two:q8_0` fetches what changed\n")
        (update,) = json.loads(mlxr_here("models", "--updates", "--json").stdout)["updates"]
        assert (update["name"], update["there"], update["command"]) == (
            "m:q8_0",
            newer,
            "mlxr pull org/two:q8_0",
        )
        assert mlxr_here(*update["command"].split()[1:]).returncode == 0
        assert mlxr_here("models", "--updates").stdout == "all models are up to date\n", (
            "the older one stays out"
        )
        hub.update(Repo("org/two", {"m-Q4_K_M.gguf": ggufs["m-Q4_K_M.gguf"]}))
        assert "org/two has no m:q8_0 in it any more" in mlxr_here("models", "--updates").stdout
        hub.faults.add(Fault("/api/models/org/two*", "status", status=404, times=None))
        gone = mlxr_here("models", "--updates")
        assert (gone.returncode, gone.stdout) == (0, "all models are up to date\n")
        assert "has no org/two" in gone.stderr
        hub.is_offline = True
        offline = mlxr_here("models", "--updates")
        assert offline.returncode == 1
        assert "refuses connections" in offline.stderr
        assert offline.stderr.count("\n") == 1


def test_of_a_model_that_is_still_coming_it_is_said_how_it_goes_on(mlxr_here: Run, mine: Path) -> None:
    with closing(Journal(default_paths().downloads)) as journal:
        journal.add(Wanted("org/begun"))
    done = mlxr_here("models", "org/begun")
    assert done.returncode == 1
    assert done.stderr == (
        "error: org/begun: its download is not finished; `mlxr pull org/begun` goes on with it\n"
    )


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(mine: Path, width: int) -> None:
    terminal = TerminalProcess("models", "--all", env={"COLUMNS": str(width)})
    assert terminal.end() == 0
    lines = terminal.screen.replace("\r", "").split("\n")
    table_lines = lines[next(i for i, line in enumerate(lines) if "NAME" in line) :]
    table_lines = table_lines[: table_lines.index("")]
    assert len(table_lines) == 5
    assert max(map(len, table_lines)) <= width
    assert all("random" not in line or "yes" in line for line in table_lines)


def test_a_table_gives_up_its_least_columns_then_cuts_names() -> None:
    columns = [
        Column("NAME", ["x" * 60, "短い名前"]),
        Column("LESS", ["a" * 20, "b"], weight=1),
        Column("MORE", ["12", "3"], is_number=True, weight=2),
    ]
    assert list(table(columns, None))[1] == f"{'x' * 60}  {'a' * 20}    12"
    head, wide, japanese = table(columns, 70)  # 40 places of a name are enough to keep other columns
    assert (head, wide) == (f"{'NAME':<42}  {'LESS':<20}  MORE", f"{'x' * 41}…  {'a' * 20}    12")
    assert japanese == f"短い名前{' ' * 34}  {'b':<20}     3"  # each character takes two places
    assert list(table(columns, 50))[1] == f"{'x' * 43}…    12"
    assert list(table(columns, 10))[1] == f"{'x' * 39}…"


def test_settings_of_one_model_hold_in_the_chat(mlxr: Run, mlxr_here: Run, mine: Path) -> None:
    done = mlxr_here("models", "--set", "random", "context=60", "--set", "random", "system=" + "word " * 10)
    assert done.returncode == 0, done.stderr
    assert f"set for it  context=60, system={'word ' * 10}".rstrip() in mlxr_here("models", "random").stdout
    told = json.loads(mlxr_here("models", "random", "--json").stdout)["models"][0]
    assert told["settings"]["context"] == told["fits"]["context"] == 60
    long = mlxr("chat", "--model", "random", "hello")
    assert long.returncode == 1
    assert "this model's context is set to 60" in long.stderr  # with what it is told before
    assert mlxr_here("models", "--set", "random", "system=").returncode == 0
    short = mlxr("chat", "--model", "random", "hello")
    assert short.returncode == 0, short.stderr


def test_a_draft_model_that_is_set_guesses_in_the_chat(mlxr: Run, mlxr_here: Run, mine: Path) -> None:
    asked = ("--model", "random", "--prompt", "hello", "--temperature", "0", "--max-tokens", "4")
    shutil.copytree(mine / "Random", mine / "Small")
    assert mlxr_here("models", "--set", "random", "draft-model=SMALL").returncode == 0
    assert "set for it  draft-model=small" in mlxr_here("models", "random").stdout
    (model,) = json.loads(mlxr_here("models", "random", "--json").stdout)["models"]
    assert model["fits"]["weight_bytes"] == 2 * model["weight_bytes"], "two that are alike"
    done = mlxr("generate", *asked)
    assert done.returncode == 0, done.stderr
    again = mlxr("generate", *asked, "--draft-model", "small")
    assert (again.returncode, again.stdout) == (0, done.stdout), again.stderr
    assert mlxr_here("models", "--set", "random", "draft-model=small").returncode == 0
    shutil.rmtree(mine / "Small")
    gone = mlxr("generate", *asked)
    assert gone.returncode == 1
    assert "its draft model small is not there any more" in gone.stderr
    assert mlxr_here("models", "--set", "random", "draft-model=").returncode == 0
    assert mlxr("generate", *asked).stdout == done.stdout


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("draft-model=nobody", "the library has no model of this name"),
        ("draft-model=guide", "guide cannot guess for random: 3,072 tokens in its vocabulary, and "),
        ("draft-model=Random", "random cannot guess ahead of itself; choose a smaller model"),
        ("context=0", "must be a whole number of tokens"),
        ("context", "KEY=VALUE"),
        ("x=1", "no such setting"),
        (b"system=Sei h\xf6flich", "system is 'Sei h\\udcf6flich'; it must be UTF-8 text"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(
    mlxr_here: Run, mine: Path, setting: str | bytes, says: str
) -> None:
    done = mlxr_here("models", "--set", "random", setting)
    assert done.returncode > 0
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_setting_without_its_model_is_said_to_need_one(mlxr_here: Run) -> None:
    done = mlxr_here("models", "--set", "context", "10")
    assert (done.returncode, done.stdout) == (2, "")
    assert "a setting is NAME KEY=VALUE, such as guide context=4096" in done.stderr


@pytest.mark.long
def test_at_a_terminal_what_was_set_is_said(mine: Path) -> None:
    terminal = TerminalProcess("models", "--set", "random", "context=60", "--set", "random", "top-k=5")
    terminal.wait_for("random: context=60, top-k=5")
    assert terminal.end() == 0
    terminal = TerminalProcess("models", "--set", "random", "context=", "--set", "random", "top-k=")
    terminal.wait_for("random: nothing is set for it alone")
    assert terminal.end() == 0
