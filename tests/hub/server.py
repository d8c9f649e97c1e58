"""A Hugging Face hub on this machine: real HTTP for the real client, and misbehaviour on command.

    with HubServer([Repo("org/name", {"model.gguf": HubFile(data, lfs=True)})]) as hub:
        hub.faults.add(Fault("model.gguf", "cut", at=1000))
        hf_hub_download("org/name", "model.gguf", endpoint=hub.url)

Two ports of 127.0.0.1: the hub's, and that of the CDN, where LFS files' bytes come from: another origin, as
it is on the Hub, so that a token sent there is noticed (it answers 400).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from socket import AF_INET, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, socket
from typing import Self

from tests.hub.connections import HOST, Listener, Office, Served
from tests.hub.faults import Faults
from tests.hub.repos import Repo
from tests.hub.site import Redirect, Site
from tests.hub.store import Account, Store


class HubServer:
    """Serves `repos` from entering the context to leaving it; its threads have ended then.

    Args:
        tokens: the accounts behind the tokens that are accepted.
        redirect, page_size, link_seconds: see Site.
    """

    def __init__(
        self,
        repos: Iterable[Repo] = (),
        tokens: Mapping[str, Account] | None = None,
        *,
        redirect: Redirect = "cdn",
        page_size: int = 1000,
        link_seconds: float = 3600,
    ) -> None:
        store = Store(repos, tokens or {})
        self._office = Office(Site(store, redirect, page_size, link_seconds), store)
        self._ports = [_Port(self._office, on_cdn=False), _Port(self._office, on_cdn=True)]
        self._office.site.url, self._office.site.cdn_url = (port.url for port in self._ports)

    def __enter__(self) -> Self:
        self.is_offline = False
        return self

    def __exit__(self, *_: object) -> None:
        self.is_offline = True
        for port in self._ports:
            port.release()

    @property
    def faults(self) -> Faults:
        """What goes wrong."""
        return self._office.faults

    @property
    def requests(self) -> list[Served]:
        """Every request so far, in the order they came."""
        return self._office.requests

    @property
    def url(self) -> str:
        """The endpoint, without a slash at the end."""
        return self._office.site.url

    @property
    def is_offline(self) -> bool:
        """Whether connections are refused; setting it True ends those there are."""
        return not self._ports[0].is_open

    @is_offline.setter
    def is_offline(self, value: bool) -> None:
        if value:
            for port in self._ports:
                port.cut()  # before stalled answers go on, or they would come to their ends
        self.faults.allow_stalls(not value)
        for port in self._ports:
            if value:
                port.shut()
            else:
                port.open()

    def update(self, repo: Repo, branch: str = "main") -> str:
        """A new commit; returns its sha. Older ones stay readable by theirs."""
        return self._office.store.update(repo, branch)

    def bytes_sent(self, repo_id: str, path: str) -> int:
        """The bytes of a file's content that were sent so far, over all requests."""
        return sum(
            served.bytes_sent
            for served in list(self.requests)
            if served.has_content and (served.repo_id, served.file) == (repo_id, path)
        )


class _Port:
    """One port, kept for the hub while nothing listens on it."""

    def __init__(self, office: Office, *, on_cdn: bool) -> None:
        self._office = office
        self._on_cdn = on_cdn
        self._kept: socket | None = _bound(0)
        self._number: int = self._kept.getsockname()[1]
        self._listener: Listener | None = None
        self._thread: threading.Thread | None = None
        self.url = f"http://{HOST}:{self._number}"

    @property
    def is_open(self) -> bool:
        return self._listener is not None

    def open(self) -> None:
        """Listen."""
        if self._listener is not None:
            return
        self.release()
        self._listener = Listener(self._office, self._number, on_cdn=self._on_cdn)
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.02,), name="hub")
        self._thread.start()

    def cut(self) -> None:
        """End the connections there are."""
        if self._listener is not None:
            self._listener.drop_connections()

    def shut(self) -> None:
        """Refuse connections and end those there are; the port stays ours."""
        if self._listener is None or self._thread is None:
            return
        self._listener.shutdown()
        self._thread.join()
        self._listener.drop_connections()
        self._listener.server_close()
        self._listener = None
        self._kept = _bound(self._number)

    def release(self) -> None:
        """Give the port up."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None


def _bound(port: int) -> socket:
    kept = socket(AF_INET, SOCK_STREAM)
    kept.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    kept.bind((HOST, port))
    return kept
