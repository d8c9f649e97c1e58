"""Another program's end of the local socket: connects to the running app and reads what it says."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from app import VERSION
from app.errors import AppError
from app.instance.address import check_folder, socket_path
from app.instance.protocol import DONE, LIVE, PROTOCOL, Opening, opening_ask

ANSWER_SECONDS = 5.0
_SILENT = "MLXR does not answer; if its window does not either, end it and start it again"
Line = dict[str, Any]


class NotRunning(AppError):
    """No MLXR listens for this data folder."""


class Connection:
    """A line of JSON to the running app, and the lines that it answers; for a `with` block."""

    def __init__(self, home: Path, asked: Mapping[str, str | None]) -> None:
        """Ask the app whose data is in `home`. Raises NotRunning, AppError where it cannot be reached."""
        self._received = bytearray()
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(ANSWER_SECONDS)
            self._ask(home, asked)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def next(self, timeout: float | None) -> Line | None:
        """The next line, or None when none came for `timeout` seconds. Raises EOFError when the app ended."""
        until = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._received:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return None
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                return None
            except ConnectionError:
                data = b""
            if not data:
                raise EOFError
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return cast(Line, json.loads(line))

    def _ask(self, home: Path, asked: Mapping[str, str | None]) -> None:
        path = socket_path(home)
        try:
            check_folder(path.parent)
            self._socket.connect(str(path))
        except TimeoutError:
            raise AppError(_SILENT) from None
        except PermissionError as error:
            raise AppError(f"MLXR cannot be reached at {path}: {error}") from None
        except OSError:
            raise NotRunning(
                f"no MLXR is running with the data in {home}; start it with `mlxr`, then try again"
            ) from None
        with suppress(ConnectionError):  # it has hung up: reading tells
            self._socket.sendall(json.dumps(asked).encode() + b"\n")


class LiveLines(Connection):
    """The running app's live figures.

    Attributes:
        app: what the app says of itself: "mlxr" its version, "pid", "models" how many it has in memory, each
            of which has one of the first lines.
    """

    def __init__(self, home: Path) -> None:
        """Connect. Raises NotRunning, AppError when it makes no sense."""
        super().__init__(home, LIVE)
        try:
            self.app = self._hello()
        except BaseException:
            self._socket.close()
            raise

    def _hello(self) -> Line:
        try:
            hello = self.next(ANSWER_SECONDS)
        except EOFError:
            raise AppError("MLXR does not take more connections; end another `mlxr top`") from None
        if hello is None:
            raise AppError(_SILENT)
        if hello.get("protocol") != PROTOCOL:
            raise AppError(
                f"the MLXR that runs is version {hello.get('mlxr')}, this one is {VERSION}; start it again"
            )
        return hello


def hand_over(home: Path, opening: Opening) -> bool:
    """Let the app that runs on `home` show its window, and open this there.

    False where none runs. Raises AppError where one does and does not listen.
    """
    try:
        with Connection(home, opening_ask(opening)) as connection:
            if connection.next(ANSWER_SECONDS) != DONE:
                raise AppError(_SILENT)
    except NotRunning:
        return False
    except EOFError:
        raise AppError(_SILENT) from None
    return True
