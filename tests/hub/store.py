"""The commits of every repository of the local hub, and who may read them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypedDict

from tests.hub.messages import Content, Refusal
from tests.hub.repos import CARD, HubFile, Repo


class Account(TypedDict):
    """Whose a token is, and the private and gated repositories it opens beside its own."""

    name: str
    may_read: set[str]


@dataclass(frozen=True, slots=True)
class Commit:
    """A repository as it was under one name."""

    sha: str
    repo: Repo

    def file(self, path: str) -> HubFile:
        """The file at `path`.

        Raises:
            Refusal: EntryNotFound.
        """
        file = self.repo.tree.get(path)
        if file is None:
            raise Refusal(404, "Entry not found", "EntryNotFound", **{"X-Repo-Commit": self.sha})
        return file


class Store:
    """Repositories by name; an update is a new commit, and the older ones stay readable by their sha."""

    def __init__(self, repos: Iterable[Repo], accounts: Mapping[str, Account]) -> None:
        self._lock = threading.Lock()
        self._commits: dict[str, dict[str, Repo]] = {}  # repository → sha → its content
        self._branches: dict[str, dict[str, str]] = {}  # repository → branch → sha
        self._accounts = dict(accounts)
        for repo in repos:
            self.update(repo)

    def update(self, repo: Repo, branch: str = "main") -> str:
        """A new commit on `branch` (made when missing); returns its sha."""
        with self._lock:
            self._commits.setdefault(repo.id, {})[repo.sha] = repo
            self._branches.setdefault(repo.id, {})[branch] = repo.sha
        return repo.sha

    def corrupt(self, content: Content) -> HubFile:
        """Other bytes of the same length in the place of a file, in every commit; returns the new file."""
        path = content.path
        with self._lock:
            commits = self._commits[content.repo_id]
            for sha, repo in commits.items():
                if path in repo.tree:
                    old = repo.tree[path]
                    other = bytes(byte ^ 0xFF for byte in old.read(0, old.true_size))
                    commits[sha] = replace(repo, files={**repo.tree, path: replace(old, data=other)})
            return commits[content.sha].tree[path]

    def account(self, token: str | None) -> Account | None:
        """Whose `token` is; None without one.

        Raises:
            Refusal: nobody's.
        """
        if token is None:
            return None
        if token not in self._accounts:
            raise Refusal(401, "Invalid credentials in Authorization header")
        return self._accounts[token]

    def visible(self, token: str | None) -> list[Commit]:
        """The newest commit of each repository that `token` may know of."""
        account = self.account(token)
        with self._lock:
            newest = [
                Commit(branches["main"], self._commits[repo_id][branches["main"]])
                for repo_id, branches in self._branches.items()
            ]
        return [commit for commit in newest if not commit.repo.private or _opens(account, commit.repo)]

    def commit(self, repo_id: str, revision: str, token: str | None) -> Commit:
        """What a branch or a sha names now.

        Raises:
            Refusal: RepoNotFound (so says the Hub of private ones too), RevisionNotFound.
        """
        account = self.account(token)
        with self._lock:
            commits, branches = self._commits.get(repo_id), self._branches.get(repo_id, {})
            sha = branches.get(revision, revision)
            repo = (commits or {}).get(sha)
            newest = (commits or {}).get(branches.get("main", ""))
        if newest is None or (newest.private and not _opens(account, newest)):
            # To a stranger the Hub says 401 without a code. Its client knows that case by the address, which
            # must begin with https; here it does not, and the code takes its place.
            if account is None:
                raise Refusal(401, "Invalid username or password.", "RepoNotFound")
            raise Refusal(404, "Repository not found", "RepoNotFound")
        if repo is None:
            raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return Commit(sha, repo)

    def stored(self, repo_id: str, sha: str, path: str) -> HubFile:
        """A file that is known to exist, whoever asks."""
        with self._lock:
            return self._commits[repo_id][sha].tree[path]

    def check_gate(self, repo: Repo, token: str | None, path: str = "") -> None:
        """Whether the content of `path` may be read; listings and the model card are open to everyone.

        Raises:
            Refusal: GatedRepo.
        """
        account = self.account(token)
        if not repo.gated or path == CARD or _opens(account, repo):
            return
        restricted = f"Access to model {repo.id} is restricted"
        if account is None:
            hint = "You must have access to it and be authenticated to access it. Please log in."
            raise Refusal(401, f"{restricted}. {hint}", "GatedRepo")
        hint = "and you are not in the authorized list. Visit its page to ask for access."
        raise Refusal(403, f"{restricted} {hint}", "GatedRepo")


def _opens(account: Account | None, repo: Repo) -> bool:
    return account is not None and (repo.author == account["name"] or repo.id in account["may_read"])
