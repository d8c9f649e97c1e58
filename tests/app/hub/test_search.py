"""Searching a local hub with many repositories."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from app.hub.client import HubClient
from app.hub.errors import BadAnswer, Unreachable
from app.hub.search import PAGE, Hit, Query, search
from tests.hub.faults import Fault
from tests.hub.fixtures import HubHome
from tests.hub.repos import LONG_AGO, HubFile, Repo
from tests.hub.server import HubServer

GGUF = {"model-Q4_K_M.gguf": HubFile(b"GGUF", lfs=True)}


def folder(model_type: str, quantization: str = "") -> dict[str, bytes | HubFile]:
    """The files of a model in safetensors."""
    config = f'{{"model_type": "{model_type}"{quantization}}}'.encode()
    return {"config.json": config, "model.safetensors": HubFile(b"x", lfs=True)}


QWEN = Repo(
    "org/Qwen3-tiny",
    folder("qwen3"),
    downloads=50,
    likes=9,
    last_modified=LONG_AGO + timedelta(days=400),
    license="apache-2.0",
    safetensors={"BF16": 600_000_000},
)
QWEN_GGUF = Repo(
    "org/Qwen3-tiny-GGUF",
    GGUF,
    downloads=70,
    likes=1,
    gguf={"architecture": "qwen3", "context_length": 40960, "total": 600_000_000, "chat_template": "x"},
)
QWEN_MLX = Repo(
    "mlx/Qwen3-tiny-4bit",
    folder("qwen3", ', "quantization_config": {"bits": 4, "group_size": 64}'),
    downloads=20,
    tags=("mlx", "4-bit"),
    library="mlx",
    safetensors={"U32": 75_000_000, "BF16": 18_750_000},
)
LLAMA = Repo(
    "meta/Llama-tiny",
    folder("llama"),
    downloads=60,
    gated="manual",
    license="llama3.2",
    safetensors={"BF16": 10**9},
)
BERT = Repo("org/bert", folder("bert"), downloads=900, safetensors={"F32": 10**8})
PICKLED = Repo("org/old", {"pytorch_model.bin": HubFile(b"x", lfs=True)}, downloads=800)
ALL = [QWEN, QWEN_GGUF, QWEN_MLX, LLAMA, BERT, PICKLED]


@pytest.fixture
def hub(hub_home: HubHome) -> Iterator[HubServer]:
    with HubServer(ALL) as server:
        hub_home.connect(server)
        yield server


def repos(query: Query) -> list[str]:
    return [hit.repo for hit in search(HubClient(), query).hits]


def test_what_is_found_says_what_a_person_chooses_by(hub: HubServer) -> None:
    hits = {hit.repo: hit for hit in search(HubClient(), Query()).hits}
    assert hits[QWEN.id] == Hit(
        repo="org/Qwen3-tiny",
        formats=("safetensors",),
        family="qwen3",
        parameters=600_000_000,
        context=None,
        downloads=50,
        likes=9,
        updated=datetime(2025, 2, 5, 3, 4, 5, tzinfo=UTC),
        licence="apache-2.0",
        gated="",
        unsupported="",
    )
    assert hits[QWEN_GGUF.id].formats == ("gguf",)
    assert hits[QWEN_GGUF.id].context == 40960
    assert hits[QWEN_MLX.id].formats == ("mlx", "safetensors")
    assert hits[QWEN_MLX.id].parameters == 600_000_000
    assert hits[LLAMA.id].gated == "manual"
    assert "bert" in hits[BERT.id].unsupported
    assert PICKLED.id not in hits
    assert len(hub.requests) == 1


@pytest.mark.usefixtures("hub")
def test_the_order_is_the_one_asked_for() -> None:
    assert repos(Query(sort="downloads"))[:3] == [BERT.id, QWEN_GGUF.id, LLAMA.id]
    assert repos(Query(sort="likes"))[:2] == [QWEN.id, QWEN_GGUF.id]
    assert repos(Query(sort="updated"))[0] == QWEN.id
    assert len(repos(Query(sort="created"))) == len(repos(Query(sort="trending"))) == 5


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        (Query("  qwen3 "), [QWEN_GGUF, QWEN, QWEN_MLX]),
        (Query(format="gguf"), [QWEN_GGUF]),
        (Query(format="mlx"), [QWEN_MLX]),
        (Query(format="safetensors"), [BERT, LLAMA, QWEN, QWEN_MLX]),
        (Query(family="qwen3"), [QWEN_GGUF, QWEN, QWEN_MLX]),
        (Query(family="qwen3", format="gguf"), [QWEN_GGUF]),
        (Query(fewest=500_000_000, most=700_000_000), [QWEN_GGUF, QWEN]),
        (Query(fewest=900_000_000), [LLAMA]),
        (Query(only_running=True), [QWEN_GGUF, LLAMA, QWEN, QWEN_MLX]),
        (Query("nothing of this name"), []),
    ],
)
def test_filters(query: Query, found: list[Repo]) -> None:
    assert repos(query) == [repo.id for repo in found]


def test_a_tag_of_the_family_narrows_a_search_for_safetensors(hub: HubServer) -> None:
    hub.update(Repo(QWEN.id, folder("qwen3"), tags=("qwen3",)))
    assert repos(Query(family="qwen3", format="safetensors")) == [QWEN.id]


def many(count: int) -> list[Repo]:
    return [Repo(f"org/model-{number:05}", GGUF, downloads=count - number) for number in range(count)]


def test_pages_come_one_by_one_in_order(hub_home: HubHome) -> None:
    with HubServer(many(2 * PAGE + 5)) as hub:
        hub_home.connect(hub)
        first = search(HubClient(), Query())
        assert len(hub.requests) == 1
        second = search(HubClient(), Query(), first.cursor)
        third = search(HubClient(), Query(), second.cursor)
        assert len(hub.requests) == 3
    assert [len(page.hits) for page in (first, second, third)] == [PAGE, PAGE, 5]
    assert third.cursor is None
    found = [hit.repo for page in (first, second, third) for hit in page.hits]
    assert found == sorted(found)


def test_a_filter_of_our_own_asks_for_a_few_pages_only(hub_home: HubHome) -> None:
    wanted = Repo("org/wanted", GGUF, gguf={"architecture": "qwen3", "total": 1})
    with HubServer([*many(10 * PAGE), wanted]) as hub:
        hub_home.connect(hub)
        page = search(HubClient(), Query(family="qwen3"))
        assert (page.hits, len(hub.requests)) == ((), 4)
        while page.cursor is not None and not page.hits:
            page = search(HubClient(), Query(family="qwen3"), page.cursor)
    assert [hit.repo for hit in page.hits] == ["org/wanted"]


def test_a_page_that_breaks_off_is_an_error_in_words(hub: HubServer) -> None:
    hub.faults.add(Fault("/api/models", "drop"))
    with pytest.raises(Unreachable, match="broke off"):
        search(HubClient(), Query())
    hub.faults.add(Fault("/api/models", "html"))
    with pytest.raises(BadAnswer, match="web page"):
        search(HubClient(), Query())
    assert search(HubClient(), Query()).hits
