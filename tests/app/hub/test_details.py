"""One repository of a local hub."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import pytest

from app.hub.client import HubClient
from app.hub.details import Access, RepoDetails, read_access, read_card, read_details
from app.hub.errors import AccessNeeded, BadAnswer, NotFound
from app.hub.failures import refusal
from tests.hub.fixtures import HubHome
from tests.hub.repos import HubFile, Repo
from tests.hub.server import HubServer

WEIGHTS = b"GGUF" * 100
CARD = """---
license: other
license_name: my-licence
license_link: https://example.org/licence
---
# A model
![logo](https://tracker.example/a.png) Hello.
"""
OPEN = Repo(
    "org/open",
    {
        "README.md": CARD.encode(),
        "config.json": b'{"model_type": "llama"}',
        "model-Q8_0.gguf": HubFile(WEIGHTS, lfs=True),
        "../evil-Q8_0.gguf": HubFile(WEIGHTS, lfs=True),
    },
    downloads=3,
    gguf={"architecture": "llama", "total": 400, "context_length": 2048},
)
GATED = Repo("org/gated", {"config.json": b"{}"}, gated="manual", card="# Secret", license="llama3.2")


@pytest.fixture
def hub(hub_home: HubHome) -> Iterator[HubServer]:
    tokens = {
        "hf_good": {"name": "me", "may_read": {"org/gated"}},
        "hf_new": {"name": "you", "may_read": set()},
    }
    with HubServer([OPEN, GATED], tokens=tokens) as server:
        hub_home.connect(server)
        yield server


def details(repo: str, token: str | None = None, revision: str | None = None) -> RepoDetails:
    return read_details(HubClient(lambda: token), repo, revision)


def test_files_have_sizes_and_sums_and_become_choices(hub: HubServer) -> None:
    found = details("org/open")
    assert found.commit == OPEN.sha
    by_name = {file.name: file for file in found.files}
    assert by_name["model-Q8_0.gguf"].size == len(WEIGHTS)
    assert by_name["model-Q8_0.gguf"].sha256 == hashlib.sha256(WEIGHTS).hexdigest()
    assert by_name["config.json"].sha256 is None
    assert [choice.key for choice in found.choices.choices] == ["q8_0"]
    assert len(found.choices.left_out) == 1
    assert (found.licence, found.licence_url) == ("my-licence", "https://example.org/licence")
    assert (found.facts.gguf_family, found.facts.parameters) == ("llama", 400)
    assert len(hub.requests) == 1


def test_the_card_is_fetched_when_asked_for_and_fetches_nothing(hub: HubServer) -> None:
    card = read_card(HubClient(), details("org/open"))
    assert card == "# A model\nlogo Hello."
    hub.update(Repo("org/plain", {"config.json": b"{}"}))
    plain = details("org/plain")
    before = len(hub.requests)
    assert read_card(HubClient(), plain) == ""
    assert len(hub.requests) == before


def test_a_new_commit_is_an_update(hub: HubServer) -> None:
    local = details("org/open").commit
    assert not details("org/open").is_newer_than(local)
    hub.update(Repo("org/open", {"model-Q8_0.gguf": HubFile(b"other", lfs=True)}))
    assert details("org/open").is_newer_than(local)
    old = details("org/open", revision=local)
    assert old.commit == local
    assert {file.name for file in old.files} >= {"config.json"}


def test_an_open_repository_needs_no_question(hub: HubServer) -> None:
    found = details("org/open")
    assert read_access(HubClient(), found) == Access("open")
    assert len(hub.requests) == 1


@pytest.mark.usefixtures("hub")
def test_a_gated_repository_tells_what_this_account_has_to_do() -> None:
    found = details("org/gated")
    assert (found.gated, found.licence) == ("manual", "llama3.2")
    nobody = read_access(HubClient(), found)
    assert nobody.gate == "needed"
    assert nobody.url.endswith("/org/gated")
    assert "token" in nobody.words
    new = read_access(HubClient(lambda: "hf_new"), found)
    assert new.gate == "needed"
    assert new.url in new.words
    assert read_access(HubClient(lambda: "hf_good"), found) == Access("granted")


def test_an_account_that_asked_is_told_to_wait() -> None:
    said = "Your request to access model org/gated is awaiting a review from the repo authors."
    headers = {"x-error-code": "GatedRepo", "x-error-message": said}
    error = refusal(403, headers, "https://huggingface.co", "org/gated", repo="org/gated", had_token=True)
    assert isinstance(error, AccessNeeded)
    assert error.is_pending
    assert error.url == "https://huggingface.co/org/gated"


@pytest.mark.usefixtures("hub")
def test_what_is_not_there_is_said() -> None:
    with pytest.raises(NotFound, match="org/nothing"):
        details("org/nothing")
    with pytest.raises(NotFound, match="org/open at v9"):
        details("org/open", revision="v9")


@pytest.mark.parametrize("answer", ["[]", "{}", '{"id": "a/b", "sha": "../../x", "siblings": []}', "null"])
def test_an_answer_of_another_shape_is_no_repository(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = HubClient(endpoint="http://127.0.0.1:1")
    monkeypatch.setattr(client, "data", lambda *_: (json.loads(answer), ""))
    with pytest.raises(BadAnswer):
        read_details(client, "a/b")


def test_hostile_fields_are_read_with_care(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {
        "id": "a/b\n\x1b[31m",
        "sha": "a" * 40,
        "siblings": [{"rfilename": 5}, "x", {"rfilename": "m-Q8_0.gguf", "size": "big", "lfs": 3}],
        "tags": [1, "license:\x1b[2Jmit", None],
        "gguf": {"total": -5, "architecture": ["llama"]},
        "safetensors": {"parameters": {"F32": "many"}},
        "config": [],
        "cardData": {"license": 5, "license_link": "javascript:alert(1)"},
        "lastModified": "yesterday",
        "downloads": True,
        "gated": "perhaps",
    }
    client = HubClient(endpoint="http://127.0.0.1:1")
    monkeypatch.setattr(client, "data", lambda *_: (entry, ""))
    found = read_details(client, "a/b")
    assert found.repo == "a/b"
    assert found.licence.isprintable()
    assert (found.licence_url, found.updated, found.downloads, found.gated) == ("", None, 0, "")
    assert [choice.key for choice in found.choices.choices] == ["q8_0"]
