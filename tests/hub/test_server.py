"""The real Hugging Face client against the local hub: it downloads and is refused as it is online."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import httpx2
import huggingface_hub
import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import RepoFile

from tests.hub.examples import MODEL, TOKENS, WEIGHTS
from tests.hub.faults import Fault
from tests.hub.fixtures import HubHome
from tests.hub.repos import HubFile, Repo
from tests.hub.server import HubServer
from tests.hub.site import Redirect


def test_a_snapshot_lies_in_the_cache_as_the_client_lays_it_out(hub: HubServer, hub_home: HubHome) -> None:
    folder = Path(huggingface_hub.snapshot_download("org/name"))
    assert folder == hub_home.cache / "models--org--name" / "snapshots" / MODEL.sha
    assert (folder / "model.gguf").read_bytes() == WEIGHTS
    assert (folder / "parts/a b.txt").read_bytes() == b"small"
    assert (folder / "README.md").read_text().endswith("---\n# A model\n")
    blobs = {path.name for path in (hub_home.cache / "models--org--name" / "blobs").iterdir()}
    assert blobs == {file.etag for file in MODEL.tree.values()}
    assert hub.bytes_sent("org/name", "model.gguf") == len(WEIGHTS)
    before = len(hub.requests)
    hub.is_offline = True
    assert Path(huggingface_hub.snapshot_download("org/name")) == folder
    assert len(hub.requests) == before


@pytest.mark.parametrize("redirect", ["cdn", "absolute", "relative"])
def test_weights_come_by_every_kind_of_redirect(redirect: Redirect, hub_home: HubHome) -> None:
    with HubServer([MODEL], TOKENS, redirect=redirect) as hub:
        hub_home.connect(hub)
        path = huggingface_hub.hf_hub_download("org/name", "model.gguf", token="hf_good")
        sent = [served for served in hub.requests if served.has_content and served.method == "GET"]
    assert Path(path).read_bytes() == WEIGHTS
    assert [(served.status, served.bytes_sent) for served in sent] == [(200, len(WEIGHTS))]
    assert [served.on_cdn for served in sent] == [redirect == "cdn"]
    assert sent[0].has_token == (redirect != "cdn")  # the CDN must not see it


def test_a_token_sent_to_the_cdn_is_refused(hub: HubServer) -> None:
    link = httpx2.head(f"{hub.url}/org/name/resolve/main/model.gguf").headers["Location"]
    assert httpx2.get(link).content == WEIGHTS
    assert httpx2.get(link, headers={"Authorization": "Bearer hf_good"}).status_code == 400
    assert httpx2.get(link.split("?")[0]).status_code == 403


def test_a_link_to_the_cdn_ends(hub_home: HubHome) -> None:
    with HubServer([MODEL], link_seconds=-1) as hub:
        response = httpx2.get(f"{hub.url}/org/name/resolve/main/model.gguf", follow_redirects=True)
    assert (response.status_code, response.json()) == (403, {"error": "Request has expired"})


def test_gated_models_are_listed_for_all_and_read_by_those_who_may(hub: HubServer, hub_home: HubHome) -> None:
    assert huggingface_hub.model_info("org/gated").gated == "manual"
    assert Path(huggingface_hub.hf_hub_download("org/gated", "README.md")).read_text() == "# Ask"
    with pytest.raises(GatedRepoError, match="401") as stranger:
        huggingface_hub.hf_hub_download("org/gated", "weights.gguf")
    with pytest.raises(GatedRepoError, match="403"):
        huggingface_hub.hf_hub_download("org/gated", "weights.gguf", token="hf_other")
    with pytest.raises(GatedRepoError):
        HfApi().auth_check("org/gated", token="hf_other")
    hub_home.log_in("hf_good")
    HfApi().auth_check("org/gated")
    assert Path(huggingface_hub.hf_hub_download("org/gated", "weights.gguf")).read_bytes() == b"gated"
    assert stranger.value.response.headers["X-Error-Code"] == "GatedRepo"
    assert hub.requests[-1].on_cdn


@pytest.mark.usefixtures("hub")
def test_what_is_not_there_is_refused_as_the_hub_refuses_it() -> None:
    with pytest.raises(RepositoryNotFoundError, match="401"):
        huggingface_hub.model_info("org/missing")
    with pytest.raises(RepositoryNotFoundError, match="404"):
        huggingface_hub.model_info("org/missing", token="hf_good")
    with pytest.raises(RepositoryNotFoundError):
        huggingface_hub.hf_hub_download("me/own", "x.txt", token="hf_other")
    with pytest.raises(RevisionNotFoundError):
        huggingface_hub.model_info("org/name", revision="v9")
    with pytest.raises(RemoteEntryNotFoundError):
        huggingface_hub.hf_hub_download("org/name", "missing.bin")
    assert Path(huggingface_hub.hf_hub_download("me/own", "x.txt", token="hf_good")).read_bytes() == b"mine"


@pytest.mark.usefixtures("hub")
def test_tokens_have_names() -> None:
    assert huggingface_hub.whoami(token="hf_good")["name"] == "me"
    with pytest.raises(HfHubHTTPError, match="Invalid user token"):
        huggingface_hub.whoami(token="hf_bad")
    with pytest.raises(HfHubHTTPError, match="Invalid credentials"):
        huggingface_hub.model_info("org/name", token="hf_bad")


def test_an_update_is_a_new_commit_and_the_old_one_stays(hub: HubServer) -> None:
    old = huggingface_hub.model_info("org/name").sha
    new = hub.update(Repo("org/name", {"model.gguf": HubFile(b"other", lfs=True)}))
    assert huggingface_hub.model_info("org/name").sha == new != old
    assert Path(huggingface_hub.hf_hub_download("org/name", "model.gguf")).read_bytes() == b"other"
    assert (
        Path(huggingface_hub.hf_hub_download("org/name", "model.gguf", revision=old)).read_bytes() == WEIGHTS
    )
    hub.update(Repo("org/name", {"b.txt": b"on a branch"}), branch="refs/pr/1")
    on_branch = huggingface_hub.hf_hub_download("org/name", "b.txt", revision="refs/pr/1")
    assert Path(on_branch).read_bytes() == b"on a branch"


def test_xet_is_announced_in_headers_and_listings(hub: HubServer) -> None:
    hub.update(Repo("org/xet", {"w.gguf": HubFile(b"x", lfs=True, xet=True)}))
    url = huggingface_hub.hf_hub_url("org/xet", "w.gguf")
    metadata = huggingface_hub.get_hf_file_metadata(url)
    (entry,) = huggingface_hub.list_repo_tree("org/xet")
    assert metadata.xet_file_data is not None
    assert isinstance(entry, RepoFile)
    assert entry.xet_hash == metadata.xet_file_data.file_hash
    with pytest.raises(HfHubHTTPError, match="404"):  # there is no Xet store behind it
        huggingface_hub.hf_hub_download("org/xet", "w.gguf")


def test_sizes_and_sums_can_be_lies(hub: HubServer) -> None:
    file = HubFile(b"truth", lfs=True, listed_size=1 << 40, listed_sha256="0" * 64)
    hub.update(Repo("org/lies", {"w.gguf": file}))
    metadata = huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url("org/lies", "w.gguf"))
    (entry,) = huggingface_hub.list_repo_tree("org/lies")
    assert isinstance(entry, RepoFile)
    assert entry.lfs is not None
    assert (metadata.size, metadata.etag) == (1 << 40, "0" * 64) == (entry.size, entry.lfs.sha256)
    link = metadata.location
    assert httpx2.get(link, headers={"Range": "bytes=0-"}).content == b"truth"


def test_a_folder_on_disk_becomes_a_repository(hub: HubServer, tmp_path: Path) -> None:
    (tmp_path / "made" / "sub").mkdir(parents=True)
    (tmp_path / "made" / "w.safetensors").write_bytes(WEIGHTS)
    (tmp_path / "made" / "sub" / "x.json").write_text("{}")
    hub.update(Repo.from_folder("org/made", tmp_path / "made", likes=1))
    folder = Path(huggingface_hub.snapshot_download("org/made"))
    assert (folder / "w.safetensors").read_bytes() == WEIGHTS
    assert (folder / "sub/x.json").read_text() == "{}"


def test_nothing_answers_while_the_hub_is_offline_and_all_does_afterwards(hub: HubServer) -> None:
    url = f"{hub.url}/api/models/org/name"
    with httpx2.Client() as client:
        assert client.get(url).status_code == 200
        hub.is_offline = True
        with pytest.raises(httpx2.NetworkError):
            client.get(url)
        with pytest.raises(httpx2.ConnectError):
            client.get(url)
        hub.is_offline = False
        assert client.get(url).status_code == 200


def test_what_a_client_took_of_a_piece_is_counted_though_it_left_before_the_rest() -> None:
    size = 30_000_000  # more than any system takes ahead
    with HubServer([Repo("org/name", {"model.gguf": HubFile(bytes(size), lfs=True)})]) as hub:
        hub.faults.add(Fault("model.gguf", "slow", rate=size, pieces=1))
        link = httpx2.head(f"{hub.url}/org/name/resolve/main/model.gguf").headers["Location"]
        with httpx2.stream("GET", link) as answer:
            taken = len(next(answer.iter_raw()))
    assert 0 < taken <= hub.bytes_sent("org/name", "model.gguf") < size


def test_every_thread_and_port_is_gone_afterwards(hub_home: HubHome) -> None:
    before = set(threading.enumerate())
    with HubServer([MODEL]) as hub, httpx2.Client() as client:
        client.get(f"{hub.url}/api/models")
        assert set(threading.enumerate()) > before
    assert set(threading.enumerate()) <= before
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{hub.url}/api/models")


@pytest.mark.usefixtures("hub_home")
def test_without_a_hub_the_client_is_offline() -> None:
    with pytest.raises(LocalEntryNotFoundError):
        huggingface_hub.hf_hub_download("org/name", "config.json")


@pytest.mark.usefixtures("hub")
def test_a_child_process_uses_the_same_hub_and_cache(hub_home: HubHome) -> None:
    code = "import huggingface_hub as hf; print(hf.hf_hub_download('org/name', 'config.json'))"
    child = subprocess.run(
        [sys.executable, "-c", code], env=os.environ.copy(), capture_output=True, text=True, check=True
    )
    assert Path(child.stdout.strip()).parent.parent.parent == hub_home.cache / "models--org--name"
