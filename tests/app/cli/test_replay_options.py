"""What `mlxr replay` is told beside its file, and one clear line for every mistake."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser
from pathlib import Path

import pytest

from app.cli.generate import json_line
from app.cli.replay import add_arguments, engine_settings
from app.paths import default_paths
from engine import (
    EngineSettings,
    SsdSettings,
)
from tests.app.cli.conftest import Run
from tests.app.cli.replay_runs import played, write


def test_every_option_becomes_a_setting(tmp_path: Path) -> None:
    parser = ArgumentParser()
    add_arguments(parser)
    options = (
        "--pages 8 --page-size 4 --prefill-chunk 32 --kv-bits 8 --no-speculation --ssd-cap 2G --ssd-floor 5k"
    )
    args = parser.parse_args(["file", "--ssd", str(tmp_path), *options.split()])
    settings = engine_settings(args)
    assert (settings.kv_pages, settings.page_size, settings.prefill_chunk, settings.kv_bits) == (8, 4, 32, 8)
    assert settings.speculation is False
    assert settings.ssd == SsdSettings(tmp_path, cap_bytes=2 << 30, floor_bytes=5120)


def test_without_options_the_engine_is_as_it_always_is_and_spills_nothing() -> None:
    parser = ArgumentParser()
    add_arguments(parser)
    settings = engine_settings(parser.parse_args(["file"]))
    assert settings == EngineSettings(cache=default_paths().kernels)
    assert settings.ssd is None


def test_a_folder_for_pages_that_cannot_be_one_is_named(mlxr_here: Run, tmp_path: Path) -> None:
    file = write(tmp_path, {"tokens": [1]})
    done = mlxr_here("replay", file, "--ssd", file)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: --ssd {file} cannot be used: File exists; give a folder\n"


def test_a_floor_above_the_disk_is_refused(mlxr_here: Run, tmp_path: Path) -> None:
    file = write(tmp_path, {"tokens": [1]})
    done = mlxr_here("replay", file, "--ssd", tmp_path, "--ssd-floor", "999999T")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: the disk of {tmp_path} has ")
    assert done.stderr.endswith(
        " TB are to stay free there, so that nothing could spill; give a smaller --ssd-floor\n"
    )


@pytest.mark.parametrize("cap", [0, 1, "1K"])
def test_a_cap_below_one_page_is_refused(
    mlxr_here: Run, random_model: Path, tmp_path: Path, cap: object
) -> None:
    file = write(tmp_path, {"tokens": [1]})
    done = mlxr_here("replay", file, "--model", random_model, "--ssd", tmp_path / "p", "--ssd-cap", cap)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: --ssd-cap is ")
    assert done.stderr.endswith(" there, so that nothing could spill; give a larger one\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_folder_for_pages_is_named(mlxr_here: Run, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir(mode=0o500)
    done = mlxr_here("replay", write(tmp_path, {"tokens": [1]}), "--ssd", folder)
    assert done.returncode == 1
    assert done.stderr == f"error: --ssd {folder} cannot be written; give another folder\n"


def test_json_cannot_drive_a_terminal() -> None:
    value = {"text": "\x1b[2J\x9b2J\x7f\x85é"}
    line = json_line(value)
    assert json.loads(line) == value
    assert line.removesuffix("\n").isprintable()
    assert "é" in line


def test_settings_reach_the_engine(mlxr_here: Run, random_model: Path, tmp_path: Path) -> None:
    file = write(tmp_path, {"tokens": [1, 5], "max_tokens": 2})
    _, totals = played(mlxr_here, file, "--model", random_model, "--page-size", 8, "--prefill-chunk", 32)
    assert totals["page_size"] == 8


def test_a_page_that_no_request_could_fill_is_refused_with_what_it_takes(
    mlxr_here: Run, random_model: Path, tmp_path: Path
) -> None:
    file = write(tmp_path, {"tokens": [1, 5], "max_tokens": 2})
    context = json.loads((random_model / "config.json").read_text())["max_position_embeddings"]
    done = mlxr_here("replay", file, "--model", random_model, "--page-size", context + 1)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"--page-size is {context + 1:,} tokens" in done.stderr
    assert f"has at most {context:,}" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    _, totals = played(mlxr_here, file, "--model", random_model, "--page-size", context)
    assert totals["page_size"] == context


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "FILE"),
        (("f", "--pages", 0), "--pages"),
        (("f", "--page-size", "x"), "--page-size"),
        (("f", "--kv-bits", 3), "--kv-bits"),
        (("f", "--ssd-cap", "2G"), "need --ssd FOLDER"),
        (("f", "--ssd-floor", "2G"), "need --ssd FOLDER"),
        (("f", "--draft-model", "guide", "--no-speculation"), "leave one out"),
        (("f", "--ssd", "d", "--ssd-cap", "2Q"), "'2Q' is not a number of bytes"),
        (("f", "--ssd", "d", "--ssd-cap", "-1"), "--ssd-cap"),
        (("f", "--ssd", "d", "--ssd-cap", ""), "--ssd-cap"),
        (("f", "--ssd", ""), "argument --ssd: no folder is named"),
        (("f", "--sp"), "--sp"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    mlxr_here: Run, arguments: tuple[object, ...], says: str
) -> None:
    done = mlxr_here("replay", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_mistakes_in_the_file_come_before_the_model(mlxr_here: Run, tmp_path: Path) -> None:
    file = write(tmp_path, "# one", "", {"prompt": "x", "colour": "red"})
    done = mlxr_here("replay", file, "--model", "/nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f'error: {file}:3: there is no field "colour"; ')
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("/nowhere.jsonl", "/nowhere.jsonl cannot be read: No such file"),
        ("/", "/ cannot be read"),
        ("", "no file is named; give one"),
        (" ", "no file is named; give one"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(mlxr_here: Run, file: str, says: str) -> None:
    done = mlxr_here("replay", file)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {says}")
