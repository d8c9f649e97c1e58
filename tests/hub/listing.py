"""What the local hub's API says of models and files: the Hub's field names, filters, orders and pages."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from tests.hub.messages import Refusal
from tests.hub.repos import HubFile, Repo
from tests.hub.store import Commit

Values = Mapping[str, list[str]]

_SEARCH = {"search", "author", "filter", "pipeline_tag", "gated", "sort", "direction", "num_parameters"}
_FORM = {"limit", "cursor", "full", "config", "cardData", "expand"}
_ORDERS: dict[str, Callable[[Repo], Any]] = {
    "downloads": lambda repo: repo.downloads,
    "likes": lambda repo: repo.likes,
    "lastModified": lambda repo: repo.last_modified,
    "createdAt": lambda repo: repo.created_at,
    "trendingScore": lambda repo: repo.trending,
}
_ALWAYS = ("_id", "id")
_BRIEF = (
    *_ALWAYS,
    *("likes", "trendingScore", "private", "downloads", "tags", "pipeline_tag", "library_name", "createdAt"),
    "modelId",
)
_FULL = (*_BRIEF, "author", "sha", "lastModified", "gated", "disabled", "siblings")
_ALONE = (*_FULL, "cardData", "config", "safetensors", "gguf", "usedStorage")


def is_set(query: Values, name: str) -> bool:
    """Whether a switch of the query is on."""
    return query.get(name, ["false"])[-1].lower() in ("true", "1")


def search(commits: Iterable[Commit], query: Values) -> list[dict[str, Any]]:
    """The entries of /api/models that fit, in the order asked for.

    Raises:
        Refusal: a parameter the local hub does not know; ignoring it would answer another question.
    """
    unknown = query.keys() - _SEARCH - _FORM
    if unknown:
        raise Refusal(400, f"Unrecognized parameter: {', '.join(sorted(unknown))}")
    order = query.get("sort", ["trendingScore"])[-1]
    if order not in _ORDERS:
        raise Refusal(400, f"Invalid sort: {order}")
    found = [commit for commit in commits if _fits(commit.repo, query)]
    found.sort(
        key=lambda commit: _ORDERS[order](commit.repo), reverse=query.get("direction", ["-1"])[-1] != "1"
    )
    return [_listed(commit, query) for commit in found]


def one_model(commit: Commit, query: Values) -> dict[str, Any]:
    """The answer of /api/models/{repo}."""
    names = _expanded(query) or _ALONE
    return _entry(commit, names, has_blobs=is_set(query, "blobs"))


def tree_entries(commit: Commit, folder: str, *, recursive: bool, expand: bool) -> list[dict[str, Any]]:
    """The answer of /api/models/{repo}/tree: folders are entries too.

    Raises:
        Refusal: EntryNotFound.
    """
    prefix = f"{folder}/" if folder else ""
    inside = [path for path in commit.repo.tree if path.startswith(prefix)]
    if folder and not inside:
        raise Refusal(404, f"{folder} does not exist on the revision", "EntryNotFound")
    found: dict[str, dict[str, Any]] = {}
    for path in inside:
        parts = path.removeprefix(prefix).split("/")
        depth = len(parts) if recursive else 1
        for count in range(1, depth + 1):
            name = prefix + "/".join(parts[:count])
            found[name] = path_entry(commit, name, expand=expand)
    return [entry for _, entry in sorted(found.items())]


def path_entry(commit: Commit, path: str, *, expand: bool) -> dict[str, Any]:
    """One file or folder of a tree."""
    file = commit.repo.tree.get(path)
    if file is None:
        entry: dict[str, Any] = {
            "type": "directory",
            "oid": commit.repo.folder_oid(path),
            "size": 0,
            "path": path,
        }
    else:
        entry = {"type": "file", "oid": file.blob_id, "size": file.size, "path": path} | _stored(file)
    if expand:
        date = _date(commit.repo.last_modified)
        entry["lastCommit"] = {"id": commit.sha, "title": "Upload files", "date": date}
        if file is not None:
            entry["securityFileStatus"] = {"status": "safe", "avScan": None, "pickleImportScan": None}
    return entry


def _stored(file: HubFile) -> dict[str, Any]:
    if not file.lfs:
        return {}
    lfs = {"oid": file.sha256, "size": file.size, "pointerSize": len(file.pointer)}
    return {"lfs": lfs} | ({"xetHash": file.xet_hash} if file.xet else {})


def _fits(repo: Repo, query: Values) -> bool:
    wanted = [tag for value in query.get("filter", []) for tag in value.split(",")] + query.get(
        "pipeline_tag", []
    )
    return (
        all(text.lower() in repo.id.lower() for text in query.get("search", []))
        and all(author == repo.author for author in query.get("author", []))
        and all(tag in repo.all_tags for tag in wanted)
        and ("gated" not in query or is_set(query, "gated") == bool(repo.gated))
        and all(_has_parameters(repo, limits) for limits in query.get("num_parameters", []))
    )


def _has_parameters(repo: Repo, limits: str) -> bool:
    """Whether the count the Hub knows is within "min:1000,max:2B"; without a count it is not."""
    counted = sum((repo.safetensors or {}).values()) or (repo.gguf or {}).get("total")
    within = dict(limit.split(":", 1) for limit in limits.split(","))
    units = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
    bounds = {name: float(bound.rstrip("KMBT")) * units.get(bound[-1], 1) for name, bound in within.items()}
    return counted is not None and bounds.get("min", 0) <= counted <= bounds.get("max", math.inf)


def _listed(commit: Commit, query: Values) -> dict[str, Any]:
    names = _expanded(query)
    if names is None:
        extra = [name for name in ("config", "cardData") if is_set(query, name)]
        names = (*(_FULL if is_set(query, "full") else _BRIEF), *extra)
    return _entry(commit, names, has_blobs=False)


def _expanded(query: Values) -> tuple[str, ...] | None:
    names = [name for value in query.get("expand", []) for name in value.split(",")]
    unknown = set(names) - set(_ALONE)
    if unknown:
        raise Refusal(400, f"Invalid option for expand: {', '.join(sorted(unknown))}")
    return (*_ALWAYS, *names) if names else None


def _entry(commit: Commit, names: tuple[str, ...], *, has_blobs: bool) -> dict[str, Any]:
    """The fields of `names`; those without a value are left out, as the Hub does."""
    repo = commit.repo
    makers: dict[str, Callable[[], Any]] = {
        "_id": lambda: hashlib.sha256(repo.id.encode()).hexdigest()[:24],
        "id": lambda: repo.id,
        "modelId": lambda: repo.id,
        "author": lambda: repo.author,
        "sha": lambda: commit.sha,
        "likes": lambda: repo.likes,
        "downloads": lambda: repo.downloads,
        "trendingScore": lambda: repo.trending,
        "private": lambda: repo.private,
        "gated": lambda: repo.gated,
        "disabled": lambda: False,
        "tags": lambda: repo.all_tags,
        "pipeline_tag": lambda: repo.pipeline_tag,
        "library_name": lambda: repo.library,
        "createdAt": lambda: _date(repo.created_at),
        "lastModified": lambda: _date(repo.last_modified),
        "siblings": lambda: [_sibling(path, file, has_blobs) for path, file in repo.tree.items()],
        "cardData": lambda: repo.card_data,
        "config": lambda: repo.config,
        "safetensors": lambda: _safetensors(repo),
        "gguf": lambda: dict(repo.gguf) if repo.gguf is not None else None,
        "usedStorage": lambda: sum(file.size for file in repo.tree.values() if file.lfs),
    }
    made = {name: makers[name]() for name in dict.fromkeys(names)}
    return {name: value for name, value in made.items() if value is not None}


def _sibling(path: str, file: HubFile, has_blobs: bool) -> dict[str, Any]:
    if not has_blobs:
        return {"rfilename": path}
    entry: dict[str, Any] = {"rfilename": path, "blobId": file.blob_id, "size": file.size}
    if file.lfs:
        entry["lfs"] = {"sha256": file.sha256, "size": file.size, "pointerSize": len(file.pointer)}
    return entry


def _safetensors(repo: Repo) -> dict[str, Any] | None:
    if repo.safetensors is None:
        return None
    return {"parameters": dict(repo.safetensors), "total": sum(repo.safetensors.values())}


def _date(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.000Z")
