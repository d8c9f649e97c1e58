"""Searching the Hub, a page at a time. Runs on the caller's thread: a worker calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast
from urllib.parse import urlencode

from app.hub.choice import safetensors_parameters
from app.hub.client import HubClient
from app.hub.failures import no_data
from app.hub.model_facts import (
    FACT_FIELDS,
    known_family,
    moment,
    read_facts,
    read_gated,
    read_licence,
    read_tags,
    text,
    whole,
    why_unsupported,
)
from app.hub.repo_id import is_repo

Sort = Literal["downloads", "likes", "updated", "created", "trending"]
SearchFormat = Literal["gguf", "mlx", "safetensors"]

_ORDERS: Mapping[Sort, str] = {
    "downloads": "downloads",
    "likes": "likes",
    "updated": "lastModified",
    "created": "createdAt",
    "trending": "trendingScore",
}
_FIELDS = ("downloads", "gated", "lastModified", "library_name", "likes", *FACT_FIELDS)
PAGE = 30
"""Models of a page."""

MOST_PAGES = 4
"""Pages that one call asks the Hub for at most, when few of their models pass a filter of our own."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for.

    Attributes:
        words: that a repository's id contains; "" for all.
        sort: the order, largest or newest first.
        format: the Hub's own tag; None: every repository with GGUF or safetensors files.
        family: such as "qwen3"; None: all.
        fewest, most: weights, as the Hub counts them; None for no limit. It may count the words that packed
            weights are stored in: an MLX model in 4 bits passes with an eighth of its weights then.
        only_running: leave out models of families that do not run here. They are marked otherwise.
    """

    words: str = ""
    sort: Sort = "downloads"
    format: SearchFormat | None = None
    family: str | None = None
    fewest: int | None = None
    most: int | None = None
    only_running: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """A repository that was found.

    Attributes:
        repo: its id.
        formats: that its tags name: "gguf", "mlx", "safetensors".
        family: such as "qwen3"; None where the Hub does not say.
        parameters: number of weights; None where nothing tells.
        context: tokens, as a GGUF header says; None where the Hub does not say.
        downloads: of the last 30 days.
        updated: its last commit.
        licence: its short name, "" where none is stated.
        gated: "auto" or "manual", "" when anybody may download it.
        unsupported: why no model in it runs here, as far as its family tells; "" where one may.
    """

    repo: str
    formats: tuple[str, ...]
    family: str | None
    parameters: int | None
    context: int | None
    downloads: int
    likes: int
    updated: datetime | None
    licence: str
    gated: str
    unsupported: str


@dataclass(frozen=True, slots=True)
class Page:
    """Some of what was found. `cursor` asks for more; None: that was all."""

    hits: tuple[Hit, ...]
    cursor: str | None


def search(client: HubClient, query: Query, cursor: str | None = None) -> Page:
    """The first page for `query`, or the one that the `cursor` of an earlier one leads to.

    Usually one request. Where a filter that the Hub does not have leaves little of a page, up to MOST_PAGES
    are asked for; a page may be short, even empty, and still have a cursor.

    Raises HubError, one line: offline, rate-limited, no Hub at the other end.
    """
    hits: list[Hit] = []
    following = cursor or _first(query)
    for _ in range(MOST_PAGES):
        entries, following = client.data("/api/models", following, "the search")
        if not isinstance(entries, list):
            raise no_data(client.endpoint, is_page=False)
        found = (
            _hit(cast("Mapping[str, Any]", one))
            for one in cast("list[object]", entries)
            if isinstance(one, dict)
        )
        hits += [hit for hit in found if hit is not None and _passes(hit, query)]
        if not following or len(hits) >= PAGE // 2:
            break
    return Page(tuple(hits), following or None)


def _first(query: Query) -> str:
    pairs = [("limit", str(PAGE)), ("sort", _ORDERS[query.sort]), *(("expand", name) for name in _FIELDS)]
    if words := " ".join(query.words.split()):
        pairs.append(("search", words))
    if query.format is not None:
        pairs.append(("filter", query.format))
        if query.family is not None and query.format != "gguf":
            pairs.append(("filter", query.family))  # GGUF repositories have no such tag
    if query.fewest is not None or query.most is not None:
        limits = [f"min:{query.fewest}"] * (query.fewest is not None) + [f"max:{query.most}"] * (
            query.most is not None
        )
        pairs.append(("num_parameters", ",".join(limits)))
    return urlencode(pairs)


def _passes(hit: Hit, query: Query) -> bool:
    """The filters that the Hub does not have."""
    if query.family is not None and hit.family != query.family:
        return False
    if query.only_running and hit.unsupported:
        return False
    return bool(hit.formats)


def _hit(entry: Mapping[str, Any]) -> Hit | None:
    repo = text(entry, "id") or ""
    if not is_repo(repo):
        return None
    facts = read_facts(entry)
    tags = read_tags(entry)
    return Hit(
        repo=repo,
        formats=tuple(one for one in ("gguf", "mlx", "safetensors") if one in tags),
        family=known_family(facts),
        parameters=facts.parameters or safetensors_parameters(facts),
        context=whole(entry["gguf"], "context_length") if isinstance(entry.get("gguf"), Mapping) else None,
        downloads=whole(entry, "downloads") or 0,
        likes=whole(entry, "likes") or 0,
        updated=moment(entry, "lastModified"),
        licence=read_licence(entry),
        gated=read_gated(entry),
        unsupported=why_unsupported(facts),
    )
