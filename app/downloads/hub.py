"""A hub as downloads know it: where it is, which cache they fill, and who asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants, hf_hub_url

from app.errors import DownloadFailed
from app.hub.client import HubClient

Token = Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class Hub:
    """A hub and a cache.

    Attributes:
        endpoint: its address, without a slash at the end.
        cache: the Hugging Face cache's folder.
        token: asked anew for each use; what it returns is neither kept nor written.
    """

    endpoint: str
    cache: Path
    token: Token

    @property
    def client(self) -> HubClient:
        """Who asks its API."""
        return HubClient(self.token, self.endpoint)

    def address(self, repo: str, commit: str, name: str) -> str:
        """Where the bytes of a file are asked for."""
        return hf_hub_url(repo, name, revision=commit, endpoint=self.endpoint)


def default_hub(token: Token) -> Hub:
    """The hub and cache that the environment names: HF_ENDPOINT, HF_HOME, HF_HUB_CACHE."""
    return Hub(constants.ENDPOINT.rstrip("/"), Path(constants.HF_HUB_CACHE).expanduser().absolute(), token)


def check_online() -> None:
    """Raises DownloadFailed when the environment forbids asking any hub."""
    if constants.is_offline_mode():
        raise DownloadFailed(
            "offline: HF_HUB_OFFLINE is set, so nothing is asked of a hub; unset it to download",
            is_resumable=True,
        )
