"""The local hub's addresses: which answer each of them gives."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import parse_qs, quote, urlencode

from tests.hub.listing import is_set, one_model, path_entry, search, tree_entries
from tests.hub.messages import Answer, Content, Refusal, Request, json_answer
from tests.hub.repos import HubFile
from tests.hub.store import Commit, Store

Redirect = Literal["cdn", "absolute", "relative"]


class Site:
    """Answers requests; holds no connection and does nothing wrong (see faults).

    Args:
        redirect: where LFS files' redirect leads: "cdn" to the CDN's own port, which is another origin, as on
            the Hub; "absolute" and "relative" to this port.
        page_size: the most entries one page of a listing holds.
        link_seconds: how long a CDN address works after it was given.
    """

    def __init__(self, store: Store, redirect: Redirect, page_size: int, link_seconds: float) -> None:
        self.url = self.cdn_url = ""  # known when the ports are
        self._store = store
        self._redirect: Redirect = redirect
        self._page_size = page_size
        self._link_seconds = link_seconds
        self._secret = secrets.token_hex(8)

    def answer(self, request: Request) -> Answer:
        """The answer to `request`; refusals are answers too."""
        try:
            return self._route(request)
        except Refusal as refusal:
            return refusal.answer()

    def file_of(self, request: Request) -> tuple[str, str] | None:
        """The repository and the file that a request's address means, whether or not they exist."""
        parts = request.segments
        if parts[0] == "cdn" and len(parts) > 3:
            return parts[1], "/".join(parts[3:])
        if parts[:3] == ["api", "resolve-cache", "models"] and len(parts) > 5:
            return parts[3], "/".join(parts[5:])
        at = parts.index("resolve") if "resolve" in parts[1:3] else 0
        return ("/".join(parts[:at]), "/".join(parts[at + 2 :])) if at else None

    def _route(self, request: Request) -> Answer:
        parts = request.segments
        if parts[0] == "cdn":
            return self._cdn(request)
        if request.on_cdn:
            raise Refusal(404, "Not Found")
        if parts == ["api", "whoami-v2"]:
            return self._whoami(request)
        if parts == ["api", "models"]:
            return self._page(request, search(self._store.visible(request.token), request.query))
        if parts[:2] == ["api", "models"]:
            return self._model(request, parts[2:])
        if parts[:3] == ["api", "resolve-cache", "models"]:
            return self._small_file(request)
        if "resolve" in parts[1:3]:
            return self._resolve(request)
        raise Refusal(404, "Sorry, we can't find the page you are looking for.")

    def _whoami(self, request: Request) -> Answer:
        account = self._store.account(request.token)
        if account is None:
            raise Refusal(401, "Invalid username or password.")
        access = {"displayName": "test", "role": "read"}
        return json_answer(
            {
                "type": "user",
                "id": hashlib.sha256(account["name"].encode()).hexdigest()[:24],
                "name": account["name"],
                "fullname": account["name"],
                "orgs": [],
                "auth": {"type": "access_token", "accessToken": access},
            }
        )

    def _model(self, request: Request, parts: list[str]) -> Answer:
        """Everything below /api/models/{repo}."""
        verbs: dict[str, Callable[[Request, Commit, str], Answer]] = {
            "revision": lambda request, commit, path: json_answer(one_model(commit, request.query)),
            "tree": self._tree,
            "paths-info": self._paths_info,
            "auth-check": self._auth_check,
        }
        at = next((i for i, part in enumerate(parts[1:3], 1) if part in verbs), min(len(parts), 2))
        repo_id, rest = "/".join(parts[:at]), parts[at:]
        if rest and rest[0] not in verbs:
            raise Refusal(404, "Sorry, we can't find the page you are looking for.")
        revision = rest[1] if len(rest) > 1 else "main"
        commit = self._store.commit(repo_id, revision, request.token)
        return verbs[rest[0] if rest else "revision"](request, commit, "/".join(rest[2:]))

    def _tree(self, request: Request, commit: Commit, path: str) -> Answer:
        query = request.query
        entries = tree_entries(
            commit, path, recursive=is_set(query, "recursive"), expand=is_set(query, "expand")
        )
        return self._page(request, entries)

    def _paths_info(self, request: Request, commit: Commit, path: str) -> Answer:
        if request.headers.get("content-type", "").startswith("application/json"):
            asked = json.loads(request.body)
            paths, expand = asked["paths"], bool(asked.get("expand"))
        else:
            form = parse_qs(request.body.decode())
            paths, expand = form.get("paths", []), is_set(form, "expand")
        tree = commit.repo.tree
        there = [name for name in paths if any(p == name or p.startswith(f"{name}/") for p in tree)]
        return json_answer([path_entry(commit, name, expand=expand) for name in there])

    def _auth_check(self, request: Request, commit: Commit, path: str) -> Answer:
        self._store.check_gate(commit.repo, request.token)
        return json_answer("OK")

    def _page(self, request: Request, entries: list[dict[str, Any]]) -> Answer:
        """A page of a listing, and the way to the next in the Link header."""
        query = request.query
        size = min(int(query.get("limit", [str(self._page_size)])[-1]), self._page_size)
        start = int(base64.urlsafe_b64decode(query["cursor"][-1])) if "cursor" in query else 0
        headers: dict[str, str] = {}
        if start + size < len(entries):
            cursor = base64.urlsafe_b64encode(str(start + size).encode()).decode()
            following = urlencode({**query, "cursor": [cursor]}, doseq=True)
            headers["Link"] = f'<{self.url}{request.path}?{following}>; rel="next"'
        return json_answer(entries[start : start + size], headers=headers)

    def _resolve(self, request: Request) -> Answer:
        """Small files are one redirect away on the same host, LFS files on the CDN; what they are is here."""
        repo_id, path = self.file_of(request) or ("", "")
        revision = request.segments[repo_id.count("/") + 2]
        commit = self._store.commit(repo_id, revision, request.token)
        self._store.check_gate(commit.repo, request.token, path)
        file = commit.file(path)
        known = {"X-Repo-Commit": commit.sha, "Accept-Ranges": "bytes", "ETag": f'"{file.etag}"'}
        if not file.lfs:
            there = f"/api/resolve-cache/models/{quote(repo_id, safe='')}/{commit.sha}/{quote(path)}"
            return Answer(307, known | {"Location": there})
        known |= _linked(file)
        if file.xet_hash is not None:
            route = f"{self.url}/api/models/{repo_id}/xet-read-token/{commit.sha}"
            known |= {"X-Xet-Hash": file.xet_hash, "Link": f'<{route}>; rel="xet-auth"'}
        base = {"cdn": self.cdn_url, "absolute": self.url, "relative": ""}[self._redirect]
        there = f"/cdn/{quote(repo_id, safe='')}/{commit.sha}/{quote(path)}"
        expires = str(int(time.time() + self._link_seconds))
        signed = urlencode({"Expires": expires, "Signature": self._signature(there, expires)})
        return Answer(302, known | {"Location": f"{base}{there}?{signed}"}, b"Found. Redirecting")

    def _small_file(self, request: Request) -> Answer:
        repo_id, path = self.file_of(request) or ("", "")
        commit = self._store.commit(repo_id, request.segments[4], request.token)
        self._store.check_gate(commit.repo, request.token, path)
        content = Content(repo_id, commit.sha, path, commit.file(path))
        return Answer(200, {"X-Repo-Commit": commit.sha}, content)

    def _cdn(self, request: Request) -> Answer:
        """The bytes of an LFS file: the address alone opens them, and the CDN wants no token."""
        if request.on_cdn and "authorization" in request.headers:
            raise Refusal(400, "Only one auth mechanism allowed")
        asked = {name: values[-1] for name, values in request.query.items()}
        expires = asked.get("Expires", "0")
        if asked.get("Signature") != self._signature(request.path, expires):
            raise Refusal(403, "AccessDenied")
        if time.time() > int(expires):
            raise Refusal(403, "Request has expired")
        repo_id, path = self.file_of(request) or ("", "")
        sha = request.segments[2]
        file = self._store.stored(repo_id, sha, path)
        # A client that stays on the hub's own port reads what the file is from the last answer.
        known = {} if request.on_cdn else {"X-Repo-Commit": sha} | _linked(file)
        return Answer(200, known, Content(repo_id, sha, path, file))

    def _signature(self, path: str, expires: str) -> str:
        return hashlib.sha256(f"{path} {expires} {self._secret}".encode()).hexdigest()[:16]


def _linked(file: HubFile) -> dict[str, str]:
    return {"X-Linked-Size": str(file.size), "X-Linked-Etag": f'"{file.etag}"'}
