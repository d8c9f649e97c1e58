"""Hubs, disks and caches that are wrong or hostile: clear words, nothing outside the cache, nothing lost."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from app.downloads.disk import RESERVE
from app.downloads.events import Finished
from app.downloads.wanted import Wanted, parse_wanted
from app.errors import UsageError
from tests.app.downloads.conftest import OpenStage
from tests.app.downloads.stage import gguf_repo, model_repo, noise
from tests.hub.faults import Fault
from tests.hub.repos import HubFile, Repo

WEIGHTS = HubFile(noise(50_000), lfs=True)

HOSTILE = {
    "up": ("../../outside.gguf", "leads out of its folder"),
    "up in the middle": ("a/../../../outside.gguf", "leads out of its folder"),
    "absolute": ("/tmp/outside.gguf", "names a place on the disk"),
    "backslash": ("..\\outside.gguf", "backslash"),
    "control": ("out\nside.gguf", "cannot be printed"),
    "too long": ("o" * 300 + ".gguf", "too long"),
    "none": ("a//b.gguf", "empty part"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused_and_nothing_is_written(
    name: str, open_stage: OpenStage, tmp_path: Path
) -> None:
    path, says = HOSTILE[name]
    stage = open_stage(Repo("org/bad", {path: WEIGHTS}))
    before = _all_files(tmp_path)
    end = stage.failed("org/bad")
    assert says in end.words
    assert _all_files(tmp_path) == before
    assert stage.journal.pending() == [], "asking again does not help"


def _all_files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if "sqlite3" not in path.name}


def test_names_that_differ_only_in_case_are_refused(open_stage: OpenStage) -> None:
    stage = open_stage(Repo("org/bad", {"M-Q8_0.gguf": WEIGHTS, "m-q8_0.gguf": WEIGHTS}))
    assert "only in case" in stage.failed("org/bad").words


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("one two/three", {}, "no repository"),
        ("../up/there", {}, "no repository"),
        ("org/model", {"file": "../x"}, "leads out"),
        ("org/model", {"revision": "../../x"}, "leads out"),
        ("org/model:q8_0", {"file": "x"}, "not both"),
    ],
)
def test_requests_that_make_no_sense(text: str, options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_wanted(text, **options)


@pytest.mark.parametrize("listed", [10, 90_000])
def test_a_hub_that_lies_about_a_size_is_noticed(listed: int, open_stage: OpenStage) -> None:
    lying = HubFile(noise(50_000), lfs=True, listed_size=listed)
    stage = open_stage(Repo("org/bad", {"m.gguf": lying}))
    end = stage.failed("org/bad")
    assert f"m.gguf has {listed:,} bytes in the hub's list, but 50,000" in end.words
    assert not any(path.stat().st_size > listed for path in stage.cache.rglob("*.mlxr-part"))
    stage.hub.update(Repo("org/bad", {"m.gguf": WEIGHTS}))
    assert isinstance(stage.pull("org/bad"), Finished), "what the hub corrected is asked for anew"


@pytest.mark.parametrize("sum_", ["../../../../outside", "0" * 63, "G" * 64, "a" * 64])
def test_a_checksum_is_one_and_right(sum_: str, open_stage: OpenStage, tmp_path: Path) -> None:
    stage = open_stage(Repo("org/bad", {"m.gguf": HubFile(b"x" * 1000, lfs=True, listed_sha256=sum_)}))
    end = stage.failed("org/bad")
    assert ("no size and checksum" if len(set(sum_)) > 1 or sum_ != "a" * 64 else "came twice") in end.words
    assert not (stage.cache / "models--org--bad" / "snapshots").exists()
    assert not list(tmp_path.rglob("outside*"))


def test_a_web_page_in_place_of_data(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo())
    stage.hub.faults.add(Fault("/api/*", "html", times=None))
    assert "web page instead of data" in stage.failed("org/model").words


@pytest.mark.parametrize(
    "repo", [Repo("org/none", {"README.md": b"#"}), Repo("org/none", {"a.bin": WEIGHTS})]
)
def test_repositories_without_a_model(repo: Repo, open_stage: OpenStage) -> None:
    assert "holds no model that MLXR reads" in open_stage(repo).failed("org/none").words


def test_a_family_that_does_not_run_is_not_downloaded(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo(**{"config.json": b'{"model_type": "sphinx"}'}))
    assert stage.failed("org/model").words.startswith("org/model: 'sphinx' models do not run here; ")
    assert not any(served.file for served in stage.hub.requests)


def test_a_quantisation_that_is_not_there_is_told_with_those_that_are(open_stage: OpenStage) -> None:
    words = open_stage(gguf_repo()).failed("org/model-GGUF:q5_k_m").words
    assert "q2_k, q4_k_m, q8_0" in words


def test_gated_and_private_repositories_say_what_to_do(open_stage: OpenStage) -> None:
    gated = Repo("org/gated", model_repo().files, gated="manual")
    stage = open_stage(gated, Repo("org/secret", model_repo().files, private=True))
    end = stage.failed("org/gated")
    assert f"accept its licence at {stage.hub.url}/org/gated" in end.words
    assert end.is_resumable
    assert "has no org/secret" in stage.failed("org/secret").words
    stage.token = "hf_good"
    stage.finished("org/gated")


def test_a_token_that_is_not_known(open_stage: OpenStage) -> None:
    stage = open_stage(Repo("org/gated", model_repo().files, gated="manual"))
    stage.token = "hf_bad"
    end = stage.failed("org/gated")
    assert "token" in end.words
    assert "hf_bad" not in end.words


@pytest.mark.parametrize("name", ["blobs", "snapshots", "refs", ""])
def test_links_out_of_the_cache_are_not_written_through(
    name: str, open_stage: OpenStage, tmp_path: Path
) -> None:
    stage = open_stage(model_repo())
    outside = tmp_path / "outside"
    outside.mkdir()
    place = stage.cache / "models--org--model" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(outside)
    assert "is a link to" in stage.failed("org/model").words
    assert list(outside.iterdir()) == []
    place.unlink()
    stage.finished("org/model")


def test_a_part_that_is_a_link_is_not_written_through(open_stage: OpenStage, tmp_path: Path) -> None:
    repo = model_repo()
    stage = open_stage(repo)
    valuable = tmp_path / "valuable"
    valuable.write_text("mine")
    blobs = stage.cache / "models--org--model" / "blobs"
    blobs.mkdir(parents=True)
    part = blobs / f"{repo.tree['model.safetensors'].sha256}.mlxr-part"
    part.symlink_to(valuable)
    assert "is a link; MLXR writes through none" in stage.failed("org/model").words
    assert valuable.read_text() == "mine"
    part.unlink()
    stage.finished("org/model")


def test_a_link_in_a_snapshot_is_not_followed(open_stage: OpenStage, tmp_path: Path) -> None:
    repo = Repo("org/deep", {"Q8_0/m-Q8_0.gguf": WEIGHTS})
    stage = open_stage(repo)
    outside = tmp_path / "outside"
    outside.mkdir()
    snapshot = stage.cache / "models--org--deep" / "snapshots" / repo.sha
    snapshot.mkdir(parents=True)
    (snapshot / "Q8_0").symlink_to(outside)
    assert "is a link to" in stage.failed("org/deep").words
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(("free", "room"), [(RESERVE + 100_000, "200 kB"), (0, "2.0 GB")])
def test_without_room_nothing_is_begun(free: int, room: str, open_stage: OpenStage) -> None:
    stage = open_stage(model_repo(weights=300_000), free=lambda folder: free)
    end = stage.failed("org/model")
    assert f"make {room} of room" in end.words
    assert end.is_resumable
    assert not any(served.file for served in stage.hub.requests)
    assert not (stage.cache / "models--org--model").exists()


def test_what_is_there_already_needs_no_room(open_stage: OpenStage) -> None:
    free = RESERVE + 400_000
    stage = open_stage(model_repo(weights=300_000), free=lambda folder: free)
    cut = Fault("model.safetensors", "cut", at=200_000)
    stage.hub.faults.add(cut, Fault("/cdn/*", "status", skip=1, times=None))
    stage.failed("org/model")
    free = RESERVE + 150_000
    stage.hub.faults.clear()
    stage.finished("org/model")


def test_a_disk_that_fills_up_loses_nothing(open_stage: OpenStage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = open_stage(model_repo(weights=300_000))
    write = os.pwrite

    def full_at_200_000(handle: int, data: memoryview, at: int) -> int:
        if at >= 200_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, data[: 200_000 - at], at)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full_at_200_000)
        end = stage.failed("org/model")
    assert "is full; make room" in end.words
    assert end.is_resumable
    assert max(part.stat().st_size for part in stage.cache.rglob("*.mlxr-part")) == 200_000
    stage.finished("org/model")
    assert stage.hub.bytes_sent("org/model", "model.safetensors") <= 400_000, "only what was on its way"


def test_a_cache_that_cannot_be_written(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo())
    stage.cache.parent.mkdir(exist_ok=True)
    stage.cache.write_text("a file where the folder should be")
    end = stage.failed("org/model")
    assert "cannot be written" in end.words
    assert end.is_resumable
    assert stage.queue.add(Wanted("org/model")) == end.id
