"""The app's end of the local socket: one thread that sleeps until somebody connects or there is news."""

from __future__ import annotations

import json
import logging
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from app.instance.address import Claim, check_folder, socket_path
from app.instance.feed import LiveFeed
from app.instance.protocol import DONE, LIVE, Opening, opening_asked

log = logging.getLogger(__name__)

MOST_CLIENTS = 16
LONGEST_ASK = 1 << 15
"""Bytes: a path of the longest kind in letters that JSON writes as escapes."""

MOST_WAITING = 1 << 18
"""Bytes that wait for a client that does not read; news waits beside them, unwritten, until it has read."""


class _Client:
    """A program that is connected: what it has sent, what it has still to get.

    Attributes:
        waiting: bytes for it that its socket has not taken yet.
        news: models that have changed since it was told of them.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.asked = bytearray()
        self.waiting = bytearray()
        self.news: set[str] = set()
        self.is_live = False

    def receive(self) -> bytes | None:
        """The line that it asks with, b"" while that is not whole. None: it has gone, or asks too much."""
        try:
            data = self.connection.recv(LONGEST_ASK)
        except BlockingIOError:
            return b""
        except OSError:
            return None
        self.asked += data
        if not data or len(self.asked) > LONGEST_ASK:
            return None
        line, end, rest = self.asked.partition(b"\n")
        if not end:
            return b""
        self.asked = rest
        return bytes(line)

    def send(self) -> bool:
        """Send as much as it takes. False: it has gone."""
        try:
            del self.waiting[: self.connection.send(self.waiting)]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True


class Listener:
    """Serves the local socket of the data folder `home`, unless another process has the claim to it.

    A program asks with one line of JSON: LIVE gets what `feed` has and its news, until it leaves; an Opening
    goes to `on_open`, on the listener's thread. Nothing runs while nobody is connected. A socket
    that cannot be made is told to the log: the app does without.
    """

    def __init__(
        self,
        home: Path,
        feed: LiveFeed,
        on_open: Callable[[Opening], None],
        claim: Claim | None = None,
    ) -> None:
        """`claim`: the folder's, which may be held already; it is released at the end."""
        self._home, self._feed, self._on_open = home, feed, on_open
        self._claim = claim or Claim(home)
        self._clients: dict[socket.socket, _Client] = {}
        self._selector = selectors.DefaultSelector()
        self._awake, self._waker = socket.socketpair()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="mlxr-socket", daemon=True)

    def start(self) -> None:
        """Start listening."""
        self._thread.start()

    def close(self, timeout: float | None = None) -> bool:
        """End every connection and remove the socket. Returns whether the thread ended in time."""
        if self._thread.ident is None:
            self._free()
            return True
        self._is_closing = True
        self._wake()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            if self._claim.take():
                self._listen(socket_path(self._home))
        except OSError as error:
            log.warning("the local socket cannot be served: %s", error)
        except Exception:  # the top of this thread
            log.exception("the local socket's thread ended")
        finally:
            self._free()

    def _listen(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_folder(path.parent)
        path.unlink(missing_ok=True)  # of a process that died: who holds the lock is the only one
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            try:
                path.chmod(0o600)  # before it listens: until then nobody gets in
                server.listen()
                self._serve(server)
            finally:
                path.unlink(missing_ok=True)

    def _serve(self, server: socket.socket) -> None:
        for end in (server, self._awake, self._waker):
            end.setblocking(False)
        self._selector.register(server, selectors.EVENT_READ, self._accept)
        self._selector.register(self._awake, selectors.EVENT_READ, self._hear_news)
        while not self._is_closing:
            for key, _ in self._selector.select():
                serve: Callable[[Any], None] = key.data
                serve(key.fileobj)

    def _wake(self) -> None:
        """There is news; for any thread. A full pipe has woken it already, a closed one nobody."""
        with suppress(OSError):
            self._waker.send(b"!")

    def _accept(self, server: socket.socket) -> None:
        try:
            connection, _ = server.accept()
        except OSError:  # it has left again
            return
        if len(self._clients) >= MOST_CLIENTS:
            connection.close()
            return
        connection.setblocking(False)
        self._clients[connection] = _Client(connection)
        self._selector.register(connection, selectors.EVENT_READ, self._attend)

    def _attend(self, connection: socket.socket) -> None:
        """A client has asked something, has read something, or has gone."""
        client = self._clients.get(connection)
        if client is None:  # it was found gone in this very turn
            return
        line = client.receive()
        if line is None or (line and not self._answer(client, line)):
            self._leave(client)
        else:
            self._push(client)

    def _answer(self, client: _Client, line: bytes) -> bool:
        """Do what is asked. False for what nobody understands."""
        try:
            asked: object = json.loads(line)
        except (ValueError, RecursionError):  # RecursionError: nested too deep
            return False
        if (opening := opening_asked(asked)) is not None:
            self._on_open(opening)
            client.waiting += json.dumps(DONE).encode() + b"\n"
        elif asked == LIVE:
            self._begin_live(client)
        else:
            return False
        return True

    def _begin_live(self, client: _Client) -> None:
        if not client.is_live:
            client.is_live = True
            if sum(other.is_live for other in self._clients.values()) == 1:
                self._feed.watch(self._wake)
            client.waiting += self._feed.everything()

    def _hear_news(self, awake: socket.socket) -> None:
        with suppress(BlockingIOError):
            awake.recv(4096)
        changed = self._feed.changed()
        for client in [client for client in self._clients.values() if client.is_live]:
            client.news |= changed
            self._push(client)

    def _push(self, client: _Client) -> None:
        if len(client.waiting) < MOST_WAITING:
            client.waiting += self._feed.lines(client.news)
            client.news.clear()
        if client.waiting and not client.send():
            self._leave(client)
            return
        is_behind = client.waiting or client.news
        wants = selectors.EVENT_READ | (selectors.EVENT_WRITE if is_behind else 0)
        self._selector.modify(client.connection, wants, self._attend)

    def _leave(self, client: _Client) -> None:
        del self._clients[client.connection]
        self._selector.unregister(client.connection)
        client.connection.close()
        if client.is_live and not any(other.is_live for other in self._clients.values()):
            self._feed.watch(None)

    def _free(self) -> None:
        self._claim.release()
        self._feed.watch(None)
        for client in self._clients.values():
            client.connection.close()
        self._clients.clear()
        self._selector.close()
        self._awake.close()
        self._waker.close()
