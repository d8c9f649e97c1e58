"""Downloads as a whole: what they fetch, where it lies afterwards, pausing, going on and giving up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import snapshot_download, try_to_load_from_cache

from app.downloads.events import Cancelled, DownloadEvent, Finished, Paused, Progress, Queued, Retrying
from app.downloads.lanes import Lanes
from app.downloads.part_file import ENDING
from app.downloads.progress import ProgressTeller
from app.downloads.queue import DownloadQueue, _Job
from app.downloads.repo_lock import repo_lock
from app.downloads.wanted import Wanted
from tests.app.downloads.conftest import OpenStage
from tests.app.downloads.stage import CONFIG, QUICK, SECONDS, gguf_repo, model_repo, noise
from tests.hub.faults import Fault
from tests.hub.repos import HubFile, Repo

SIZE = 2_000_000


def test_a_model_lies_in_the_cache_as_the_hubs_own_client_expects(open_stage: OpenStage) -> None:
    repo = model_repo()
    stage = open_stage(repo)
    end = stage.finished("org/model")
    found = snapshot_download("org/model", cache_dir=stage.cache, local_files_only=True)
    assert Path(found) == end.path
    assert {path.name for path in end.path.iterdir()} == {
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "model.safetensors",
    }
    for name in ("config.json", "model.safetensors"):
        path = try_to_load_from_cache("org/model", name, cache_dir=stage.cache)
        assert isinstance(path, str)
        assert Path(path).read_bytes() == repo.tree[name].read(0, repo.tree[name].true_size)
    assert stage.journal.pending() == []
    assert end.fetched == end.plan.size == sum(repo.tree[file.name].true_size for file in end.plan.files)


def test_of_a_gguf_repository_one_quantisation_is_fetched_with_all_its_parts(open_stage: OpenStage) -> None:
    stage = open_stage(gguf_repo())
    end = stage.finished("org/model-GGUF:q8_0")
    assert end.path.name == "m-Q8_0-00001-of-00002.gguf"
    assert len(list(end.path.parent.iterdir())) == 2


def test_a_pause_comes_at_once_and_everything_goes_on_from_there(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo(weights=300_000), patience=replace(QUICK, stall=2 * SECONDS))
    stage.hub.faults.add(Fault("model.safetensors", "stall", at=200_000))
    id_ = stage.queue.add(Wanted("org/model"))
    stage.wait_for(lambda event: isinstance(event, Progress) and event.done >= 200_000)
    stage.queue.pause(id_)
    assert stage.end_of(id_) == Paused(id_), "it waited for bytes that do not come"
    (entry,) = stage.journal.pending()
    assert entry.state == "paused"
    before = len(stage.events)
    stage.queue.resume(entry)
    end = stage.end_of(id_, before)
    assert isinstance(end, Finished)
    assert stage.hub.bytes_sent("org/model", "model.safetensors") == 300_000


def test_a_pause_ends_a_wait_for_the_next_try(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo(), patience=replace(QUICK, first_wait=60.0, longest_wait=60.0))
    stage.hub.faults.add(Fault("model.safetensors", "status", times=None))
    id_ = stage.queue.add(Wanted("org/model"))
    stage.wait_for(lambda event: isinstance(event, Retrying))
    stage.queue.pause(id_)
    assert stage.end_of(id_) == Paused(id_)


def test_after_a_restart_the_same_commit_goes_on(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo(weights=300_000))
    stage.hub.faults.add(Fault("model.safetensors", "stall", at=200_000))
    stage.queue.add(Wanted("org/model"))
    stage.wait_for(lambda event: isinstance(event, Progress) and event.done >= 200_000)
    stage.close()
    stage.hub.update(model_repo(weights=200_000))  # a new commit meanwhile
    again = open_stage(hub=stage.hub)
    (entry,) = again.journal.pending()
    assert entry.state == "waiting"
    assert entry.plan is not None
    again.queue.resume(entry)
    end = again.end_of(entry.id)
    assert isinstance(end, Finished)
    assert end.plan == entry.plan
    assert stage.hub.bytes_sent("org/model", "model.safetensors") == 300_000


def test_giving_up_removes_parts_and_leaves_what_is_whole(open_stage: OpenStage) -> None:
    stage = open_stage(gguf_repo())
    whole = stage.finished("org/model-GGUF:q2_k").path
    stage.hub.faults.add(Fault("m-Q4_K_M.gguf", "stall", at=100_000))
    id_ = stage.queue.add(Wanted("org/model-GGUF", "q4_k_m"))
    stage.wait_for(lambda event: isinstance(event, Progress) and event.id == id_ and event.done >= 100_000)
    stage.queue.cancel(stage.journal.pending()[0])
    assert stage.end_of(id_) == Cancelled(id_)
    assert not list(stage.cache.rglob("*mlxr-part*"))
    assert stage.journal.pending() == []
    assert whole.read_bytes() == noise(300_000, 3)


def test_giving_up_one_that_is_just_being_paused(
    open_stage: OpenStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, end = open_stage(model_repo(weights=300_000)), DownloadQueue._end

    def overtaken(queue: DownloadQueue, job: _Job, paused: DownloadEvent) -> None:
        monkeypatch.setattr(DownloadQueue, "_end", end)
        assert isinstance(paused, Paused)
        queue.cancel(job.entry)
        end(queue, job, paused)

    stall = Fault("model.safetensors", "stall", at=200_000)
    stage.hub.faults.add(stall)
    id_ = stage.queue.add(Wanted("org/model"))
    stage.hub.faults.wait(stall)
    monkeypatch.setattr(DownloadQueue, "_end", overtaken)
    stage.queue.pause(id_)
    assert stage.end_of(id_) == Cancelled(id_)
    assert stage.journal.pending() == []
    assert not list(stage.cache.rglob("*mlxr-part*"))


def test_giving_up_a_paused_one_leaves_no_empty_folders(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo())
    stage.hub.faults.add(Fault("*", "status", times=None))
    id_ = stage.failed("org/model").id
    (entry,) = stage.journal.pending()
    before = len(stage.events)
    stage.queue.cancel(entry)
    assert stage.end_of(id_, before) == Cancelled(id_)
    assert not (stage.cache / "models--org--model").exists()


def test_one_after_the_other_and_a_second_request_for_the_same_joins_the_first(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo("org/one"), model_repo("org/two"))
    stall = Fault("model.safetensors", "stall", at=100)
    stage.hub.faults.add(stall)
    first = stage.queue.add(Wanted("org/one"))
    second = stage.queue.add(Wanted("org/two"))
    stage.hub.faults.wait(stall)
    assert stage.queue.add(Wanted("org/one")) == first
    assert {served.repo_id for served in stage.hub.requests if served.file} == {"org/one"}
    stage.hub.faults.clear()
    assert isinstance(stage.end_of(first), Finished)
    assert isinstance(stage.end_of(second), Finished)
    assert [event.id for event in stage.of(Queued)] == [first, second]


def test_those_that_wait_are_paused_and_given_up_while_another_is_fetched(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo("org/one"), model_repo("org/two"))
    stall = Fault("model.safetensors", "stall", at=100)
    stage.hub.faults.add(stall)
    first = stage.queue.add(Wanted("org/one"))
    second = stage.queue.add(Wanted("org/two"))
    stage.hub.faults.wait(stall)
    stage.queue.pause(second)
    assert stage.end_of(second) == Paused(second)
    entry = stage.journal.pending()[1]
    assert (entry.id, entry.state) == (second, "paused")
    before = len(stage.events)
    stage.queue.resume(entry)
    stage.queue.cancel(entry)
    assert stage.end_of(second, before) == Cancelled(second)
    assert [entry.id for entry in stage.journal.pending()] == [first]
    stage.hub.faults.clear()
    assert isinstance(stage.end_of(first), Finished)
    assert not (stage.cache / "models--org--two").exists()


def test_what_was_given_up_right_before_the_end_does_not_go_on(open_stage: OpenStage) -> None:
    """Of one repository: what is fetched of it must end before what is unfinished can go."""
    stage = open_stage(gguf_repo())
    stall = Fault("m-Q2_K.gguf", "stall", at=100_000)
    stage.hub.faults.add(stall)
    first = stage.queue.add(Wanted("org/model-GGUF", "q2_k"))
    second = stage.queue.add(Wanted("org/model-GGUF", "q4_k_m"))
    stage.hub.faults.wait(stall)
    stage.queue.cancel(stage.journal.pending()[1])
    assert stage.queue.close(SECONDS)
    assert stage.end_of(second) == Cancelled(second)
    assert [(entry.id, entry.state) for entry in stage.journal.pending()] == [(first, "waiting")]


def test_another_mlxr_at_the_same_repository_is_told(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo())
    with repo_lock(stage.cache / ".locks" / "models--org--model" / "mlxr.lock", "org/model"):
        assert "another MLXR is downloading org/model" in stage.failed("org/model").words
    stage.finished("org/model")


def test_what_is_there_is_not_fetched_again_and_what_is_wrong_is(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo(weights=300_000))
    path = stage.finished("org/model").path / "model.safetensors"
    assert stage.finished("org/model").fetched == 0
    with path.open("r+b") as file:
        file.seek(1234)
        file.write(b"?")
    before = len(stage.events)
    assert stage.finished("org/model").fetched == 300_000
    assert path.read_bytes() == noise(300_000)
    told = [event for event in stage.events[before:] if isinstance(event, Progress)]
    assert max(event.done for event in told) == told[-1].total


def test_what_the_hubs_own_client_fetched_is_used(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo(weights=300_000))
    snapshot_download("org/model", cache_dir=stage.cache, allow_patterns="*.safetensors")
    end = stage.finished("org/model")
    assert end.fetched == sum(file.size for file in end.plan.files) - 300_000
    assert len(list((stage.cache / "models--org--model" / "blobs").iterdir())) == 4


def test_a_second_quantisation_joins_the_first(open_stage: OpenStage) -> None:
    stage = open_stage(gguf_repo())
    first, second = stage.finished("org/model-GGUF:q2_k"), stage.finished("org/model-GGUF:q8_0")
    assert first.path.parent == second.path.parent
    assert {path.name for path in first.path.parent.iterdir()} == {
        "m-Q2_K.gguf",
        "m-Q8_0-00001-of-00002.gguf",
        "m-Q8_0-00002-of-00002.gguf",
    }


def test_a_new_commit_becomes_a_new_snapshot_that_shares_what_stayed(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo(weights=300_000))
    old = stage.finished("org/model")
    stage.hub.update(model_repo(weights=300_000, **{"config.json": CONFIG + b"\n"}))
    new = stage.finished("org/model")
    assert new.path != old.path
    assert new.fetched == len(CONFIG) + 1
    found = snapshot_download("org/model", cache_dir=stage.cache, local_files_only=True)
    assert Path(found) == new.path
    assert old.path.is_dir()


def test_two_files_of_one_content_are_fetched_once(open_stage: OpenStage) -> None:
    twin = HubFile(noise(300_000), lfs=True)
    stage = open_stage(Repo("org/twins", {"m-00001-of-00002.gguf": twin, "m-00002-of-00002.gguf": twin}))
    end = stage.finished("org/twins")
    assert end.fetched == end.plan.size == 300_000
    assert {path.stat().st_size for path in end.path.parent.iterdir()} == {300_000}


def test_one_file_alone(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo())
    end = stage.finished("org/model", file="README.md")
    assert [file.name for file in end.plan.files] == ["README.md"]
    split = open_stage(gguf_repo()).finished("org/model-GGUF", file="m-Q8_0-00002-of-00002.gguf")
    assert len(split.plan.files) == 2, "a part alone is no model"


def test_an_empty_file(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo(**{"merges.txt": b""}))
    assert (stage.finished("org/model").path / "merges.txt").read_bytes() == b""


def test_progress_tells_bytes_rate_and_time_left(
    open_stage: OpenStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that goes on with what comes."""
    came, now = ProgressTeller.came, [0.0]

    def came_in_time(self: ProgressTeller, name: str, count: int) -> None:
        now[0] += count / 400_000
        came(self, name, count)

    monkeypatch.setattr(ProgressTeller, "came", came_in_time)
    monkeypatch.setattr("app.downloads.progress.time", SimpleNamespace(monotonic=lambda: now[0]))
    stage = open_stage(model_repo(weights=300_000), lanes=Lanes(1))
    end = stage.finished("org/model")
    told = stage.of(Progress)
    assert [event.done for event in told] == sorted(event.done for event in told)
    assert told[-1].done == told[-1].total == end.plan.size
    middle = told[len(told) // 2]
    assert middle.rate == pytest.approx(400_000)
    assert middle.seconds_left == pytest.approx((middle.total - middle.done) / middle.rate)


def test_a_pause_that_is_taken_back_at_once(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo(weights=300_000))
    stall = Fault("model.safetensors", "stall", at=200_000)
    stage.hub.faults.add(stall)
    id_ = stage.queue.add(Wanted("org/model"))
    stage.hub.faults.wait(stall)
    stage.queue.pause(id_)
    stage.queue.resume(stage.journal.pending()[0])
    assert isinstance(stage.end_of(id_), Finished | Paused)
    end = stage.wait_for(lambda event: isinstance(event, Finished))
    assert isinstance(end, Finished)
    assert stage.journal.pending() == []


def test_a_branch_and_a_commit_are_kept_as_the_hubs_own_client_keeps_them(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo())
    commit = stage.hub.update(model_repo(**{"config.json": CONFIG + b" "}), branch="try/it")
    branch = stage.finished("org/model", revision="try/it")
    assert branch.plan.commit == commit
    found = snapshot_download("org/model", revision="try/it", cache_dir=stage.cache, local_files_only=True)
    assert Path(found) == branch.path
    assert stage.finished("org/model", revision=commit).path == branch.path
    assert [path.name for path in (stage.cache / "models--org--model" / "refs").rglob("*")] == ["try", "it"]


def test_what_a_kill_left_of_another_commit_is_in_nobodys_way(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo())
    aside = stage.cache / "models--org--model" / "mlxr-new"
    (aside / ("0" * 40)).mkdir(parents=True)
    assert (stage.finished("org/model").path / "config.json").is_file()
    assert not aside.exists()


def test_how_many_files_come_at_once_can_be_changed_meanwhile(open_stage: OpenStage) -> None:
    names = [f"m-Q8_0-{part:05}-of-00004.gguf" for part in range(1, 5)]
    lanes = Lanes(1)
    stage = open_stage(
        Repo("org/parts", {name: HubFile(noise(SIZE, seed), lfs=True) for seed, name in enumerate(names)}),
        lanes=lanes,
    )
    stage.hub.faults.add(Fault("*.gguf", "slow", rate=100_000, pieces=40, times=None))
    id_ = stage.queue.add(Wanted("org/parts"))

    def sizes() -> list[int]:
        return [part.stat().st_size for part in sorted(stage.cache.rglob(f"*{ENDING}"))]

    def grown(before: list[int], least: int) -> int:
        """How many parts grow while another `least` bytes come."""
        come = sum(before) + least
        stage.wait_for(lambda event: isinstance(event, Progress) and event.done >= come, len(stage.events))
        return sum(now > then for then, now in zip(before, sizes(), strict=True))

    stage.wait_for(lambda event: isinstance(event, Progress) and event.done > 0)
    assert grown(sizes(), 30_000) == 1
    lanes.set_count(4)
    before = sizes()
    while grown(before, 30_000) < 4:  # the others begin when they have heard of it
        pass
    lanes.set_count(1)
    while grown(sizes(), 30_000) > 1:  # they make room with the next bytes
        pass
    stage.hub.faults.clear()
    stage.queue.pause(id_)
    assert stage.end_of(id_) == Paused(id_)
    sent = sum(stage.hub.bytes_sent("org/parts", name) for name in names)
    end = stage.finished("org/parts")
    assert sent + end.fetched - 4 * SIZE < 4 * 70_000, "who made room fetched again what he had"
