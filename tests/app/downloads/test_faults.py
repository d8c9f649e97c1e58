"""What the network and the hub do wrong: the file is whole in the end, or the failure is clear."""

from __future__ import annotations

import pytest

from app.downloads.events import Finished, Retrying
from app.downloads.retry import Patience
from app.downloads.wanted import Wanted
from tests.app.downloads.conftest import OpenStage
from tests.app.downloads.stage import HASTY, QUICK, model_repo, noise
from tests.hub.faults import Fault
from tests.hub.repos import HubFile
from tests.hub.server import HubServer

FILE = "model.safetensors"
SIZE = 300_000

PASSING = {
    "cut": ([Fault(FILE, "cut", at=100_000), Fault(FILE, "cut", at=200_000)], "broke off", SIZE),
    "stall": ([Fault(FILE, "stall", at=150_000)], "did not answer in time", SIZE),
    "trickle": ([Fault(FILE, "slow", rate=500, times=1)], "only trickle", SIZE),
    "503": ([Fault(FILE, "status", status=503, times=3)], "HTTP 503", SIZE),
    "500 of the CDN": ([Fault("/cdn/*", "status", status=500, times=2)], "HTTP 500", SIZE),
    "address that ran out": ([Fault("/cdn/*", "status", status=403, times=1)], "HTTP 403", SIZE),
    "dropped": ([Fault(FILE, "drop", times=2)], "broke off", SIZE),
    "page": ([Fault(FILE, "html", times=2)], "a web page came", SIZE),
    "redirects": ([Fault(FILE, "redirect_loop", times=20)], "without end", SIZE),
    "short": ([Fault(FILE, "short_length", at=100_000)], "ended early", SIZE),
    "wrong byte": ([Fault(FILE, "wrong_byte", at=123_456)], "checksum is wrong", SIZE + 123_456),
    "no ranges": (
        [Fault(FILE, "cut", at=100_000), Fault(FILE, "ignore_range", skip=1)],
        "broke off",
        SIZE + 100_000,
    ),
}
ON_THE_WAY = {"stall": 150_000, "trickle": 150_000, "wrong byte": SIZE - 123_456}
"""What is on its way when a connection ends is sent, and not received."""


@pytest.mark.parametrize("name", PASSING)
def test_what_passes_costs_only_the_bytes_it_spoiled(name: str, open_stage: OpenStage) -> None:
    faults, says, sent = PASSING[name]
    stage = open_stage(model_repo(weights=SIZE), patience=HASTY if name == "stall" else QUICK)
    stage.hub.faults.add(*faults)
    end = stage.finished("org/model")
    assert says in stage.whys()
    assert (end.path / FILE).stat().st_size == SIZE
    assert sent <= stage.hub.bytes_sent("org/model", FILE) <= sent + ON_THE_WAY.get(name, 0)
    assert not list(stage.cache.rglob("*mlxr-part*"))


FAILING = {
    "wrong bytes": (Fault(FILE, "wrong_byte", at=5, times=None), "came twice with another checksum"),
    "another file": (Fault(FILE, "change_etag", at=150_000, times=None), "came twice with another checksum"),
    "always 503": (Fault(FILE, "status", times=None), "HTTP 503"),
    "always a page": (Fault(FILE, "html", times=None), "may want you to sign in"),
    "cut at the same byte": (Fault(FILE, "cut", at=50_000, times=None), "given up after 8 tries"),
    "cut at once": (Fault(FILE, "cut", at=0, times=None), "broke off"),
}


@pytest.mark.parametrize("name", FAILING)
def test_what_stays_wrong_fails_in_words_and_goes_on_later(name: str, open_stage: OpenStage) -> None:
    fault, says = FAILING[name]
    stage = open_stage(model_repo(weights=SIZE))
    stage.hub.faults.add(fault)
    end = stage.failed("org/model")
    assert says in end.words
    assert end.is_resumable
    folder = stage.cache / "models--org--model"
    assert not (folder / "snapshots").exists(), "nobody may take it for a model"
    assert not (folder / "refs").exists()
    assert [entry.state for entry in stage.journal.pending()] == ["failed"]
    if name == "another file":
        return  # it is another one for good
    stage.hub.faults.clear()
    id_ = stage.journal.pending()[0].id
    before = len(stage.events)
    stage.queue.resume(stage.journal.pending()[0])
    assert isinstance(stage.end_of(id_, before), Finished)


def test_what_came_before_a_page_is_kept(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo(weights=SIZE))
    stage.hub.faults.add(Fault(FILE, "cut", at=200_000), Fault(FILE, "html", skip=2, times=None))
    stage.failed("org/model")
    part = next(stage.cache.rglob("*.mlxr-part"))
    assert part.stat().st_size == 200_000
    stage.hub.faults.clear()
    stage.finished("org/model")
    assert stage.hub.bytes_sent("org/model", FILE) == SIZE


def test_where_connections_stall_small_pieces_come_over_connections_of_their_own(
    open_stage: OpenStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.downloads.transfer.SMALL_PIECE", 50_000)
    stage = open_stage(model_repo(weights=SIZE), patience=HASTY)
    stage.hub.faults.add(Fault(FILE, "stall", at=100_000, times=2))
    stage.finished("org/model")
    ranges = [served.range for served in stage.hub.requests if served.on_cdn]
    assert ranges[:2] == ["bytes=0-299999", "bytes=100000-299999"]
    assert ranges[2:] == [f"bytes={at}-{at + 49_999}" for at in range(100_000, SIZE, 50_000)]


def test_a_file_that_xet_has_too_comes_by_http_and_stalls_for_a_while_only(open_stage: OpenStage) -> None:
    """Xet's own client would wait for a connection that brings nothing: nobody asks for its way in."""
    more = {FILE: HubFile(noise(SIZE), lfs=True, xet=True)}
    repo = model_repo("org/model", SIZE, **more)
    stage = open_stage(repo, patience=HASTY)
    stage.hub.faults.add(Fault(FILE, "stall", at=150_000))
    end = stage.finished("org/model")
    assert "did not answer in time" in stage.whys()
    assert (end.path / FILE).read_bytes() == noise(SIZE)
    assert not [served.path for served in stage.hub.requests if "xet" in served.path]


def test_a_wish_to_wait_is_met(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo(weights=SIZE))
    stage.hub.faults.add(Fault(FILE, "status", status=429, retry_after=1))
    stage.finished("org/model")
    waits = [event.seconds for event in stage.of(Retrying)]
    assert waits == [1.0]
    times = [served.time for served in stage.hub.requests if served.file == FILE]
    assert times[1] - times[0] >= 1.0


def test_a_wish_to_wait_for_long_ends_the_try(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo(weights=SIZE))
    stage.hub.faults.add(Fault("/api/*", "status", status=429, retry_after=3600))
    assert "again in 60 minutes" in stage.failed("org/model").words


def test_offline_is_said_as_such(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo(weights=SIZE))
    stage.hub.is_offline = True
    end = stage.failed("org/model")
    assert "refuses connections" in end.words
    assert end.is_resumable
    stage.hub.is_offline = False
    stage.finished("org/model")


def test_a_network_that_comes_back_is_noticed(open_stage: OpenStage) -> None:
    patience = Patience(attempts=10_000, first_wait=0.1, longest_wait=0.1)
    stage = open_stage(model_repo(weights=SIZE), patience=patience)
    cut = Fault(FILE, "cut", at=100_000, times=None)  # it cannot be whole before the network goes
    stage.hub.faults.add(cut)
    id_ = stage.begin(Wanted("org/model"))
    stage.hub.faults.wait(cut)
    stage.hub.is_offline = True
    stage.wait_for(lambda event: isinstance(event, Retrying) and "refuses" in event.why)
    stage.hub.faults.clear()
    stage.hub.is_offline = False
    assert isinstance(stage.end_of(id_), Finished)


def test_the_hub_says_which_file_is_gone(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo(weights=SIZE))
    stage.hub.faults.add(Fault(FILE, "status", status=404))
    assert "has no model.safetensors of org/model" in stage.failed("org/model").words
    stage.finished("org/model")


def test_the_token_is_for_the_hub_alone(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo("org/gated", weights=SIZE))
    stage.token = "hf_good"
    stage.finished("org/gated")
    assert any(served.has_token for served in stage.hub.requests)
    assert any(served.on_cdn for served in stage.hub.requests)
    assert not any(served.has_token for served in stage.hub.requests if served.on_cdn)


def test_nothing_is_asked_that_nobody_asked_for(open_stage: OpenStage) -> None:
    stage = open_stage(model_repo(weights=SIZE))
    end = stage.finished("org/model")
    about_files = [served for served in stage.hub.requests if served.file]
    others = [served.path for served in stage.hub.requests if not served.file]
    assert [path.partition("?")[0] for path in others] == ["/api/models/org/model/revision/main"]
    assert {served.file for served in about_files} == {file.name for file in end.plan.files}


def test_a_proxy_is_used(open_stage: OpenStage, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = HubServer([model_repo(weights=SIZE)], redirect="relative")
    hub.__enter__()
    monkeypatch.setenv("HTTP_PROXY", hub.url)
    stage = open_stage(hub=hub, endpoint="http://hub.invalid")
    stage.finished("org/model")
    assert {served.headers["host"] for served in hub.requests} == {"hub.invalid"}


def test_the_token_is_in_no_file(open_stage: OpenStage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    stage = open_stage(model_repo("org/gated", weights=SIZE))
    stage.token = "hf_good"
    stage.hub.faults.add(
        Fault(FILE, "cut", at=100_000), Fault("/cdn/*", "status", status=403, skip=1, times=None)
    )
    words = stage.failed("org/gated").words
    files = [path for path in stage.cache.parent.rglob("*") if path.is_file()]
    assert any(path.name.endswith(".mlxr-part.json") for path in files)
    assert not [path for path in files if b"hf_good" in path.read_bytes()]
    assert "hf_good" not in words + stage.whys() + caplog.text


def test_a_validator_that_cannot_be_sent_back_is_not_kept(open_stage: OpenStage) -> None:
    class Odd(HubFile):
        cdn_etag = '"\u00e9"'

    stage = open_stage(model_repo(**{FILE: Odd(noise(300_000), lfs=True)}))
    stage.hub.faults.add(Fault(FILE, "cut", at=100_000))
    assert stage.finished("org/model").plan.size > 300_000
    assert stage.hub.bytes_sent("org/model", FILE) == 300_000
