"""The fixture `hub_home`: Hugging Face's client in this process, and child processes, use a local hub.

huggingface_hub reads its environment once, when it is imported, and keeps what it read as constants; the
tests' conftest imports it offline. Setting HF_ENDPOINT in a test therefore changes nothing in this process.
So `hub_home` sets both: the environment (for processes the test starts, `mlxr pull` for one) and the
constants (which the client's functions look up when they are called, so that replacing them works), with the
one `HfApi` behind the module's functions. Passing `endpoint=hub.url` also works, but leaves the cache's
folder and HF_HUB_OFFLINE as they were.

Use: `from tests.hub.fixtures import hub_home as hub_home` in the test's module or conftest.py, then

    def test_something(hub_home: HubHome) -> None:
        with HubServer([...]) as hub:
            hub_home.connect(hub)

Until `connect`, the client is offline, as in all other tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants, hf_api

from tests.hub.server import HubServer

_PATHS = {
    "HF_HOME": "",
    "HF_HUB_CACHE": "hub",
    "HUGGINGFACE_HUB_CACHE": "hub",
    "HF_ASSETS_CACHE": "assets",
    "HF_XET_CACHE": "xet",
    "HF_TOKEN_PATH": "token",
    "HF_STORED_TOKENS_PATH": "stored_tokens",
    "AGENT_HARNESSES_PATH": ".agent_harnesses.json",
    "CHECK_FOR_UPDATE_DONE_PATH": ".check_for_update_done",
}
_UNSET = (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HF_TOKEN_PATH",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "HF_XET_CACHE",
    "HF_ENDPOINT",
    "TRANSFORMERS_OFFLINE",
)


@dataclass(frozen=True, slots=True)
class HubHome:
    """HF_HOME of one test."""

    path: Path
    _monkeypatch: pytest.MonkeyPatch

    @property
    def cache(self) -> Path:
        """The folder of the cache: models--org--name and so on."""
        return self.path / "hub"

    def connect(self, hub: HubServer) -> None:
        """From now on the client is online, and its endpoint is `hub`."""
        huggingface_hub.close_session()
        patch = self._monkeypatch
        patch.setenv("HF_ENDPOINT", hub.url)
        patch.setenv("HF_HUB_OFFLINE", "0")
        patch.setattr(constants, "ENDPOINT", hub.url)
        template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setattr(hf_api.api, "endpoint", hub.url)

    def log_in(self, token: str) -> None:
        """`token` is in the file where `hf auth login` leaves it."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "token").write_text(token)


@pytest.fixture
def hub_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubHome]:
    """An empty HF_HOME without tokens; `connect` puts the client online."""
    home = tmp_path / "hf-home"
    for name in _UNSET:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(home))
    for name, leaf in _PATHS.items():
        monkeypatch.setattr(constants, name, str(home / leaf))
    yield HubHome(home, monkeypatch)
    huggingface_hub.close_session()
