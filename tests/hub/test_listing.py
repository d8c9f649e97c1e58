"""The real Hugging Face client finds models and reads their facts and trees from the local hub."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import huggingface_hub
import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, RemoteEntryNotFoundError
from huggingface_hub.hf_api import ModelInfo, RepoFile, RepoFolder

from tests.hub.examples import MODEL, WEIGHTS
from tests.hub.fixtures import HubHome
from tests.hub.repos import LONG_AGO, HubFile, Repo
from tests.hub.server import HubServer


@pytest.mark.usefixtures("hub")
def test_models_are_found_by_name_author_and_tag_in_the_order_asked_for() -> None:
    def ids(models: Iterable[ModelInfo]) -> list[str]:
        return [model.id for model in models]

    find = huggingface_hub.list_models
    assert ids(find(sort="downloads")) == ["org/name", "org/gated"]  # a private one is nobody else's business
    assert ids(find(search="NAME")) == ["org/name"]
    assert ids(find(author="me", token="hf_good")) == ["me/own"]
    assert ids(find(filter=["chat", "license:mit"])) == ["org/name"]
    assert ids(find(filter="gguf", pipeline_tag="text-generation", gated=False)) == ["org/name"]
    assert ids(find(gated=True)) == ["org/gated"]


def test_a_long_list_comes_in_pages(hub_home: HubHome) -> None:
    repos = [Repo(f"org/m{i}", likes=i, last_modified=LONG_AGO - timedelta(days=i)) for i in range(7)]
    with HubServer(repos, page_size=3) as hub:
        hub_home.connect(hub)
        liked = [model.id for model in huggingface_hub.list_models(sort="likes", search="org/m")]
        pages = len(hub.requests)
        changed = [model.id for model in huggingface_hub.list_models(sort="last_modified", limit=2)]
    assert liked == [f"org/m{i}" for i in reversed(range(7))]
    assert pages == 3
    assert changed == ["org/m0", "org/m1"]


@pytest.mark.usefixtures("hub")
def test_a_list_holds_the_fields_asked_for_and_no_others() -> None:
    brief = next(iter(huggingface_hub.list_models(search="name")))
    full = next(iter(huggingface_hub.list_models(search="name", full=True, cardData=True, fetch_config=True)))
    chosen = next(iter(huggingface_hub.list_models(search="name", expand=["gguf", "downloads"])))
    assert (brief.downloads, brief.likes, brief.sha, brief.siblings) == (10, 3, None, None)
    assert full.sha == MODEL.sha
    assert [sibling.rfilename for sibling in full.siblings or ()] == list(MODEL.tree)
    assert full.card_data is not None
    assert full.card_data.license == "mit"
    assert full.config == {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    assert (chosen.downloads, chosen.likes) == (10, None)
    assert chosen.gguf == {"architecture": "llama", "total": 100_000}


@pytest.mark.usefixtures("hub")
def test_a_question_the_hub_cannot_answer_is_refused() -> None:
    with pytest.raises(HfHubHTTPError, match="Unrecognized parameter: inference"):
        list(huggingface_hub.list_models(inference="warm"))
    with pytest.raises(HfHubHTTPError, match="expand: spaces"):
        huggingface_hub.model_info("org/name", expand=["spaces"])


@pytest.mark.usefixtures("hub")
def test_one_model_tells_sizes_and_sums_of_its_files() -> None:
    info = huggingface_hub.model_info("org/name", files_metadata=True)
    files = {sibling.rfilename: sibling for sibling in info.siblings or ()}
    assert files["model.gguf"].size == len(WEIGHTS)
    assert files["model.gguf"].lfs is not None
    assert files["model.gguf"].lfs.sha256 == HubFile(WEIGHTS).sha256
    assert files["config.json"].lfs is None
    assert files["parts/a b.txt"].size == len(b"small")
    assert info.used_storage == len(WEIGHTS)
    assert info.safetensors is not None
    assert info.safetensors.total == 100_000


def test_blobs_are_named_as_git_names_them() -> None:
    assert HubFile(b"hello\n").blob_id == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_a_tree_lists_folders_files_and_pages(hub_home: HubHome) -> None:
    with HubServer([MODEL], page_size=2) as hub:
        hub_home.connect(hub)
        top = list(huggingface_hub.list_repo_tree("org/name"))
        deep = list(huggingface_hub.list_repo_tree("org/name", recursive=True, expand=True))
        inside = list(huggingface_hub.list_repo_tree("org/name", "parts"))
        with pytest.raises(RemoteEntryNotFoundError):
            list(huggingface_hub.list_repo_tree("org/name", "nowhere"))
        named = HfApi().get_paths_info("org/name", ["parts", "model.gguf", "nothing"])
    assert [entry.path for entry in top] == ["README.md", "config.json", "model.gguf", "parts"]
    assert isinstance(top[-1], RepoFolder)
    assert [entry.path for entry in deep][-2:] == ["parts", "parts/a b.txt"]
    assert all(entry.last_commit and entry.last_commit.oid == MODEL.sha for entry in deep)
    assert [entry.path for entry in inside] == ["parts/a b.txt"]
    weights = next(entry for entry in named if isinstance(entry, RepoFile))
    assert weights.lfs is not None
    assert (weights.size, weights.lfs.sha256) == (len(WEIGHTS), HubFile(WEIGHTS).sha256)
    assert [entry.path for entry in named] == ["parts", "model.gguf"]
