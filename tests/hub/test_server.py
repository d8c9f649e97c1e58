"""The real Hugging Face client against the local hub: it finds, lists, downloads and is refused as on the Hub."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta

import huggingface_hub
import pytest

from tests.hub.fixtures import HubHome
from tests.hub.repos import LONG_AGO, HubFile, Repo
from tests.hub.server import HubServer

WEIGHTS = random.Random(1).randbytes(200_000)
CONFIG = b'{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 3}'
MODEL = Repo(
    "org/name",
    {
        "config.json": CONFIG,
        "model.gguf": HubFile(WEIGHTS, lfs=True),
        "parts/a b.txt": b"small",
    },
    downloads=10,
    likes=3,
    tags=("chat",),
    card="# A model\n",
    license="mit",
    pipeline_tag="text-generation",
    gguf={"architecture": "llama", "total": 100_000},
)
GATED = Repo(
    "org/gated", {"weights.gguf": HubFile(b"gated", lfs=True)}, gated="manual", downloads=5, card="# Ask"
)
PRIVATE = Repo("me/own", {"x.txt": b"mine"}, private=True)
TOKENS = {
    "hf_good": {"name": "me", "may_read": {"org/gated"}},
    "hf_other": {"name": "other", "may_read": set[str]()},
}


@pytest.fixture
def hub(hub_home: HubHome) -> Iterator[HubServer]:
    with HubServer([MODEL, GATED, PRIVATE], TOKENS) as hub:
        hub_home.connect(hub)
        yield hub


@pytest.mark.usefixtures("hub")
def test_models_are_found_by_name_author_and_tag_in_the_order_asked_for() -> None:
    def ids(**query: object) -> list[str]:
        return [model.id for model in huggingface_hub.list_models(**query)]

    assert ids(sort="downloads") == ["org/name", "org/gated"]  # a private one is nobody else's business
    assert ids(search="NAME") == ["org/name"]
    assert ids(author="me", token="hf_good") == ["me/own"]
    assert ids(filter=["chat", "license:mit"]) == ["org/name"]
    assert ids(filter="gguf", pipeline_tag="text-generation", gated=False) == ["org/name"]
    assert ids(gated=True) == ["org/gated"]


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
