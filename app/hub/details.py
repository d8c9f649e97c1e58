"""One repository: its commit, files, card, licence, and whether this account may download it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast
from urllib.parse import quote, urlencode

from app.hub.card import MOST_CARD, card_markdown
from app.hub.choice import RepoFacts, RepoFile
from app.hub.choices import RepoChoices, repo_choices
from app.hub.client import HubClient
from app.hub.errors import AccessNeeded, NotFound
from app.hub.failures import no_data
from app.hub.model_facts import moment, read_facts, read_gated, read_licence, section, text, whole
from app.hub.repo_id import is_repo

Gate = Literal["open", "granted", "needed", "pending"]
CARD = "README.md"
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Access:
    """Whether this account may download a repository's files.

    Attributes:
        gate: "open" to everybody; "granted" to this account; "needed": the licence is to be accepted on the
            page `url`, or access to be asked for there; "pending": it was asked for.
        url: the repository's page, "" where it is not needed.
        words: what to do, one line; "" where nothing is to be done.
    """

    gate: Gate
    url: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True)
class RepoDetails:
    """A repository at one commit.

    Attributes:
        repo: its id; the Hub's own spelling, which a renamed repository's differs from.
        commit: 40 hex digits.
        files: all of them.
        facts: what the Hub read in its headers.
        choices: what there is to download.
        licence: its short name; "" where none is stated.
        licence_url: where its text is, as its card says; "" where it does not.
        downloads: of the last 30 days.
    """

    repo: str
    commit: str
    files: tuple[RepoFile, ...]
    facts: RepoFacts
    choices: RepoChoices
    licence: str
    licence_url: str
    gated: str
    downloads: int
    likes: int
    updated: datetime | None

    def is_newer_than(self, local_commit: str) -> bool:
        """Whether an update is available for what was downloaded at `local_commit`."""
        return self.commit != local_commit


def read_details(client: HubClient, repo: str, revision: str | None = None) -> RepoDetails:
    """Ask for a repository at a branch, tag or commit, or as it is now: one request. Raises HubError."""
    path = f"/api/models/{repo}" + (f"/revision/{quote(revision, safe='')}" if revision else "")
    what = f"{repo} at {revision}" if revision else repo
    answer, _ = client.data(path, urlencode({"blobs": "true"}), what, repo)
    entry = cast("Mapping[str, Any]", answer) if isinstance(answer, dict) else {}
    commit, siblings = text(entry, "sha"), entry.get("siblings")
    if commit is None or not _COMMIT.fullmatch(commit) or not isinstance(siblings, list):
        raise no_data(client.endpoint, is_page=False)
    files = tuple(
        _file(cast("Mapping[str, Any]", one))
        for one in cast("list[object]", siblings)
        if isinstance(one, dict)
    )
    facts, card = read_facts(entry), section(entry, "cardData")
    own = text(entry, "id") or ""
    address = text(card, "license_link") or ""
    return RepoDetails(
        repo=own if is_repo(own) else repo,
        commit=commit,
        files=files,
        facts=facts,
        choices=repo_choices(files, facts),
        licence=read_licence(entry),
        licence_url=address if address.startswith("https://") else "",
        gated=read_gated(entry),
        downloads=whole(entry, "downloads") or 0,
        likes=whole(entry, "likes") or 0,
        updated=moment(entry, "lastModified"),
    )


def read_access(client: HubClient, details: RepoDetails) -> Access:
    """Whether this account may download: nothing is asked for an open repository, else one request.

    Raises HubError for anything but a missing permission.
    """
    if not details.gated:
        return Access("open")
    try:
        client.data(f"/api/models/{details.repo}/auth-check", "", details.repo, details.repo)
    except AccessNeeded as error:
        return Access("pending" if error.is_pending else "needed", error.url, str(error))
    return Access("granted")


def read_card(client: HubClient, details: RepoDetails) -> str:
    """The card as Markdown that a renderer can show without fetching anything; "" where there is none.

    One request. Raises HubError; AccessNeeded where the card is behind the gate, too.
    """
    if all(file.name != CARD for file in details.files):
        return ""
    try:
        return card_markdown(client.begin(details.repo, details.commit, CARD, 2 * MOST_CARD))
    except NotFound:
        return ""


def _file(sibling: Mapping[str, Any]) -> RepoFile:
    name = sibling.get("rfilename")
    lfs = section(sibling, "lfs")
    size = whole(lfs, "size") if lfs else whole(sibling, "size")
    return RepoFile(name if isinstance(name, str) else "", size, text(lfs, "sha256"), text(sibling, "blobId"))
