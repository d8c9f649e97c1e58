"""Tokens: pasted, kept, sent, and never seen."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.hub.client import HubClient
from app.hub.errors import BadToken, HubError, Unreachable
from app.hub.keychain import NoKeychain, SystemKeychain
from app.hub.search import Query, search
from app.hub.token import Account, TokenStore, clean_token
from tests.hub.faults import Fault
from tests.hub.fixtures import HubHome
from tests.hub.repos import Repo
from tests.hub.server import HubServer

GOOD = "hf_goodSecretToken123"
ROOT = Path(__file__).resolve().parents[3]


class MemoryKeychain:
    """A keychain that works, or refuses."""

    def __init__(self, *, is_locked: bool = False) -> None:
        self.secrets: dict[str, str] = {}
        self.asked = 0
        self._is_locked = is_locked

    def get(self, account: str) -> str | None:
        self._open()
        return self.secrets.get(account)

    def set(self, account: str, secret: str) -> None:
        self._open()
        self.secrets[account] = secret

    def delete(self, account: str) -> None:
        self._open()
        self.secrets.pop(account, None)

    def _open(self) -> None:
        self.asked += 1
        if self._is_locked:
            raise NoKeychain("the keychain is locked")


@pytest.fixture
def hub(hub_home: HubHome) -> Iterator[HubServer]:
    with HubServer(
        [Repo("org/open", {"m.gguf": b"x"})], tokens={GOOD: {"name": "me", "may_read": set()}}
    ) as server:
        hub_home.connect(server)
        yield server


@pytest.mark.parametrize(
    "pasted",
    [
        GOOD,
        f"  {GOOD}\n",
        f'"{GOOD}"',
        f"“{GOOD}”,",
        f"HF_TOKEN={GOOD}",
        f"Bearer {GOOD}",
        f"{GOOD[:8]} \r\n{GOOD[8:]}\u200b",
    ],
)
def test_what_came_along_with_a_pasted_token_is_taken_off(pasted: str) -> None:
    assert clean_token(pasted) == GOOD


@pytest.mark.parametrize(
    "pasted", ["", "  \n", "password123", "hf_", "hf_äöü", "sk-abcdefgh", f"hf_{'x' * 400}"]
)
def test_what_is_no_token_is_refused_without_quoting_it(pasted: str) -> None:
    with pytest.raises(BadToken) as raised:
        clean_token(pasted)
    assert "huggingface.co/settings/tokens" in str(raised.value)
    assert not pasted.strip() or pasted == "hf_" or pasted not in str(raised.value)


def test_a_token_is_verified_kept_in_the_keychain_and_sent(hub: HubServer) -> None:
    keychain = MemoryKeychain()
    store = TokenStore(keychain)
    assert (store.get(), store.source()) == (None, None)
    kept = store.set(f" {GOOD}\n")
    assert (kept.account, kept.source, kept.problem) == (Account("me", "read"), "keychain", "")
    assert list(keychain.secrets) == [hub.url.removeprefix("http://")]
    again = TokenStore(keychain)
    search(HubClient(again.get), Query())
    assert hub.requests[-1].headers["authorization"] == f"Bearer {GOOD}"
    asked = keychain.asked
    assert (again.get(), again.source()) == (GOOD, "keychain")
    assert keychain.asked == asked
    assert TokenStore(keychain, "https://mirror.example").get() is None
    again.delete()
    assert again.get() is None
    assert keychain.secrets == {}


def test_a_token_the_hub_does_not_know_is_not_kept(hub: HubServer) -> None:
    keychain = MemoryKeychain()
    with pytest.raises(BadToken, match="does not take the token"):
        TokenStore(keychain).set("hf_revoked")
    hub.is_offline = True
    with pytest.raises(Unreachable):
        TokenStore(keychain).set(GOOD)
    assert keychain.secrets == {}


@pytest.mark.usefixtures("hub")
def test_without_a_keychain_a_token_lives_as_long_as_the_process(tmp_path: Path) -> None:
    store = TokenStore(MemoryKeychain(is_locked=True))
    assert store.get() is None
    assert "locked" in store.problem
    kept = store.set(GOOD)
    assert kept.source == "this session"
    assert "until MLXR ends" in kept.problem
    assert (store.get(), store.source()) == (GOOD, "this session")
    store.delete()
    assert store.get() is None
    assert not [
        file for file in tmp_path.rglob("*") if file.is_file() and GOOD in file.read_text(errors="replace")
    ]


def test_the_environment_goes_first_and_the_file_of_hf_auth_login_last(
    hub_home: HubHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    keychain = MemoryKeychain()
    hub_home.log_in("hf_fromFile\n")
    assert TokenStore(keychain).source() == "hf auth login"
    keychain.secrets["huggingface.co"] = "hf_fromKeychain"
    assert TokenStore(keychain).get() == "hf_fromKeychain"
    monkeypatch.setenv("HF_TOKEN", " hf_fromEnvironment\n")
    assert TokenStore(keychain).get() == "hf_fromEnvironment"
    monkeypatch.delenv("HF_TOKEN")
    keychain.secrets.clear()
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    assert TokenStore(keychain).get() is None


def test_a_broken_token_of_the_environment_is_said_without_quoting_it(
    hub_home: HubHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", f"{GOOD}\r\nX-Evil: 1")
    with pytest.raises(BadToken, match="HF_TOKEN") as raised:
        TokenStore(MemoryKeychain()).get()
    assert GOOD not in str(raised.value)
    monkeypatch.delenv("HF_TOKEN")
    hub_home.log_in("two words")
    with pytest.raises(BadToken, match=str(hub_home.path)):
        TokenStore(MemoryKeychain()).get()


def test_no_log_error_or_repr_holds_a_token(
    hub: HubServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    store = TokenStore(MemoryKeychain())
    kept = store.set(GOOD)
    client = HubClient(store.get)
    search(client, Query())
    seen = [repr(store), repr(client), repr(kept), str(vars(client))]
    hub.faults.add(
        Fault("/api/*", "status", status=401),
        Fault("/api/*", "status", status=500),
        Fault("/api/*", "drop"),
        Fault("/api/*", "html"),
        Fault("/api/*", "redirect_loop", times=30),
    )
    for _ in range(5):
        with pytest.raises(HubError) as raised:
            search(client, Query())
        seen += traceback.format_exception(raised.value)
    monkeypatch.setenv("HF_TOKEN", f"{GOOD} {GOOD}")
    with pytest.raises(BadToken) as refused:
        search(client, Query())
    seen += [*traceback.format_exception(refused.value), caplog.text]
    assert "500" in "".join(seen)
    assert GOOD not in "".join(seen)


@pytest.mark.skipif(sys.platform != "linux", reason="on a Mac it would ask for permission")
def test_a_linux_without_a_secret_service_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={tmp_path / 'nothing'}")
    for ask in (
        lambda: SystemKeychain().get("here"),
        lambda: SystemKeychain().set("here", GOOD),
        lambda: SystemKeychain().delete("here"),
    ):
        with pytest.raises(NoKeychain, match="Secret Service"):
            ask()


@pytest.mark.skipif(
    not all(map(shutil.which, ("dbus-run-session", "gnome-keyring-daemon"))),
    reason="GNOME Keyring is not here",
)
def test_gnome_keyring_keeps_a_token_and_says_when_it_is_locked(tmp_path: Path) -> None:
    python = f"""
from app.hub.keychain import NoKeychain, SystemKeychain
keychain = SystemKeychain()
for ask in (lambda: keychain.set("here", "{GOOD}"), lambda: keychain.get("here"),
            lambda: keychain.delete("here"), lambda: keychain.get("here"), lambda: keychain.delete("here")):
    try:
        print(ask())
    except NoKeychain as error:
        print(error)
"""
    (tmp_path / "ask.py").write_text(python)
    (tmp_path / "home").mkdir()
    ask = f"{sys.executable} {tmp_path}/ask.py"
    unlocked = f"printf pw | gnome-keyring-daemon --unlock --components=secrets > /dev/null; {ask}"
    assert in_a_session(unlocked, tmp_path) == ["None", GOOD, "None", "None", "None"]
    locked = f"gnome-keyring-daemon --start --components=secrets > /dev/null; {ask}"
    assert set(in_a_session(locked, tmp_path)) == {"the system's keychain is locked; unlock it and try again"}


def in_a_session(script: str, folder: Path) -> list[str]:
    """What `script` prints on a session bus of its own, with a home of its own and no display."""
    kept = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    home = str(folder / "home")
    done = subprocess.run(
        ["dbus-run-session", "--", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**kept, "HOME": home, "XDG_RUNTIME_DIR": home, "XDG_DATA_HOME": home, "PYTHONPATH": str(ROOT)},
    )
    return done.stdout.splitlines()
