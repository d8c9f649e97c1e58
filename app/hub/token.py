"""The token for gated and private repositories: where it comes from, and where it is kept.

It is looked for in HF_TOKEN, then in the system's keychain (or, where there is none, in this process's
memory), then in the file that `hf auth login` left; it is written to the keychain alone, and never shown: no
message, log or repr of this app holds it. The keychain has one for each server, so that a token of the Hub is
not sent to a mirror.
"""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from app.hub.client import HubClient
from app.hub.errors import BadToken
from app.hub.failures import no_data
from app.hub.keychain import Keychain, NoKeychain
from app.hub.model_facts import section, text

Source = Literal["HF_TOKEN", "keychain", "this session", "hf auth login"]

_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_PASTED = re.compile(r"hf_[A-Za-z0-9_.-]{1,300}")
_SENDABLE = re.compile(r"[!-~]{1,2000}")
_ONLY_EXPLICIT = "HF_HUB_DISABLE_IMPLICIT_TOKEN"
_NOISE = "\"'`“”‘’<>,;"


@dataclass(frozen=True, slots=True)
class Account:
    """Whose token it is: the account's name, and what the token may do, such as "read"; "" if unsaid."""

    name: str
    role: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Where a token was put. `problem`: why it is gone when MLXR ends, one line; "" when it stays."""

    account: Account
    source: Source
    problem: str = ""


class TokenStore:
    """The token of one server; safe to use from every thread. The keychain is asked once, when needed."""

    def __init__(self, keychain: Keychain, endpoint: str | None = None) -> None:
        """`endpoint`: the server; None: HF_ENDPOINT, else the Hub."""
        self._keychain = keychain
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._read = False
        self._kept: tuple[str, Source] | None = None
        self._problem = ""

    @property
    def problem(self) -> str:
        """Why the keychain could not be read, one line; "" while it could or was not asked."""
        return self._problem

    def get(self) -> str | None:
        """The token to send, if there is one. Raises BadToken where the environment or a file holds none."""
        found = self._find()
        return found[0] if found else None

    def source(self) -> Source | None:
        """Where the token comes from; None without one. Raises BadToken as `get` does."""
        found = self._find()
        return found[1] if found else None

    def set(self, pasted: str) -> Kept:
        """Keep the token that a person pasted, once the server knows it: one request. Raises HubError."""
        token = clean_token(pasted)
        account = who_is(token, self._endpoint)
        with self._lock:
            self._read = True
            try:
                self._keychain.set(self._account(), token)
            except NoKeychain as error:
                self._kept = (token, "this session")
                return Kept(account, "this session", f"{error}: the token is kept until MLXR ends")
            self._kept = (token, "keychain")
            self._problem = ""
            return Kept(account, "keychain")

    def delete(self) -> None:
        """Forget it. Raises NoKeychain where the keychain keeps it all the same.

        HF_TOKEN, and the file that `hf auth login` left, are not ours to change.
        """
        with self._lock:
            was_kept, self._kept, self._read = self._kept, None, True
            if was_kept is None or was_kept[1] == "keychain":
                self._keychain.delete(self._account())

    def _find(self) -> tuple[str, Source] | None:
        for variable in _VARIABLES:
            if value := os.environ.get(variable, "").strip():
                return _sendable(value, variable), "HF_TOKEN"
        with self._lock:
            if not self._read:
                self._read = True
                self._kept = self._from_keychain()
            if self._kept is not None:
                return self._kept
        return _from_file()

    def _from_keychain(self) -> tuple[str, Source] | None:
        try:
            token = self._keychain.get(self._account())
        except NoKeychain as error:
            self._problem = str(error)
            return None
        return (token, "keychain") if token and _SENDABLE.fullmatch(token) else None

    def _account(self) -> str:
        """What the keychain calls it by: the server's name."""
        return urlsplit(HubClient(endpoint=self._endpoint).endpoint).netloc.rpartition("@")[2] or "hub"


def clean_token(pasted: str) -> str:
    """The token in what was pasted, without the spaces, line ends and quotes that came along.

    Raises BadToken, without quoting it.
    """
    token = "".join(char for char in pasted if char.isprintable() and not char.isspace()).strip(_NOISE)
    for before in ("HF_TOKEN=", "Bearer"):
        token = token.removeprefix(before).strip(_NOISE)
    if not token:
        raise BadToken("the token is empty; copy it from https://huggingface.co/settings/tokens")
    if not _PASTED.fullmatch(token):
        raise BadToken(
            "this is no token of Hugging Face: it begins with hf_, and letters and digits follow; "
            "copy it from https://huggingface.co/settings/tokens"
        )
    return token


def who_is(token: str, endpoint: str | None = None) -> Account:
    """Whose token it is: one request. Raises BadToken for one that the server does not take, and HubError."""
    client = HubClient(lambda: token, endpoint)
    answer, _ = client.data("/api/whoami-v2", "", "this account")
    said = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    name = text(said, "name")
    if name is None:
        raise no_data(client.endpoint, is_page=False)
    return Account(name, text(section(section(said, "auth"), "accessToken"), "role") or "")


def _sendable(value: str, where: str) -> str:
    if not _SENDABLE.fullmatch(value):
        raise BadToken(f"{where} holds no token: there are spaces or special characters in it; set it anew")
    return value


def _from_file() -> tuple[str, Source] | None:
    """What `hf auth login` left, where Hugging Face's settings let other programs use it."""
    from huggingface_hub import constants

    if os.environ.get(_ONLY_EXPLICIT, "").upper() in ("1", "ON", "YES", "TRUE"):
        return None
    path = Path(constants.HF_TOKEN_PATH)
    try:
        value = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return (_sendable(value, str(path)), "hf auth login") if value else None
