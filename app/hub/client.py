"""Requests to the Hub: through huggingface_hub's session, bounded in time and size, its errors in words.

huggingface_hub's own calls wait and repeat a refused request up to five times, minutes in all, before they
say anything; a person who searches is told at once. Everything runs on the caller's thread.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from app import VERSION
from app.hub.errors import HubError
from app.hub.failures import no_answer, no_data, refusal

CONNECT_S, READ_S, WHOLE_S = 10.0, 20.0, 60.0
"""Seconds for a connection, for the next bytes, and for a whole answer."""

MOST_JSON = 32_000_000
"""Bytes of an answer; the files of a repository with thousands of them are a few million."""


class HubClient:
    """Asks one endpoint.

    Args:
        token: called before each request; what it gives is sent, and never kept or shown.
        endpoint: None: HF_ENDPOINT, else the Hub.
    """

    def __init__(self, token: Callable[[], str | None] = lambda: None, endpoint: str | None = None) -> None:
        self._token = token
        self._endpoint = endpoint

    @property
    def endpoint(self) -> str:
        """The server's address without a slash at its end."""
        # Imported here: it takes a third of a second, and the window does not need it to open.
        from huggingface_hub import constants

        return (self._endpoint or constants.ENDPOINT).rstrip("/")

    def data(self, path: str, query: str, what: str, repo: str | None = None) -> tuple[Any, str]:
        """The JSON at `path`, and the query of the next page ("" on the last). Raises HubError.

        The next page is asked of this endpoint, whatever host the answer names: a mirror may hand through
        the Hub's own address.

        Args:
            query: of the address, encoded.
            what: is asked for, for people.
            repo: that is asked about, if any.
        """
        headers, body = self._get(f"{path}?{query}" if query else path, what, repo, {}, MOST_JSON + 1)
        if len(body) > MOST_JSON:
            raise no_data(self.endpoint, is_page=False)
        if "html" in headers.get("content-type", "").lower():
            raise no_data(self.endpoint, is_page=True)
        try:
            return json.loads(body), _next_page(headers)
        except (ValueError, RecursionError):
            raise no_data(self.endpoint, is_page=body.lstrip()[:1] == b"<") from None

    def begin(self, repo: str, revision: str, name: str, most: int) -> bytes:
        """The first `most` bytes of a file of a repository, or all of a shorter one. Raises HubError."""
        path = f"/{repo}/resolve/{quote(revision, safe='')}/{quote(name)}"
        ranged = {"range": f"bytes=0-{most - 1}", "accept-encoding": "identity"}
        headers, body = self._get(path, f"{name} of {repo}", repo, ranged, most)
        if "html" in headers.get("content-type", "").lower() and not name.lower().endswith((".html", ".htm")):
            raise no_data(self.endpoint, is_page=True)
        return body

    def _get(
        self,
        path: str,
        what: str,
        repo: str | None,
        headers: dict[str, str],
        most: int,
    ) -> tuple[dict[str, str], bytes]:
        import httpx2
        from huggingface_hub import get_session
        from huggingface_hub.errors import OfflineModeIsEnabled

        token = self._token()
        sent = {"user-agent": f"mlxr/{VERSION}", **headers}
        if token:
            sent["authorization"] = f"Bearer {token}"
        timeout = httpx2.Timeout(READ_S, connect=CONNECT_S)
        end = time.monotonic() + WHOLE_S
        try:
            with get_session().stream("GET", self.endpoint + path, headers=sent, timeout=timeout) as answer:
                got = {name.lower(): value for name, value in answer.headers.items()}
                if answer.status_code == 416 and "range" in sent:
                    return got, b""  # the file is empty
                if answer.status_code >= 400:
                    had_token = token is not None
                    raise refusal(
                        answer.status_code, got, self.endpoint, what, repo=repo, had_token=had_token
                    )
                body = bytearray()
                for chunk in answer.iter_bytes():
                    body += chunk
                    if len(body) >= most:
                        break
                    if time.monotonic() > end:
                        raise TimeoutError
                return got, bytes(body[:most])
        except HubError:
            raise
        except (
            httpx2.HTTPError,
            httpx2.InvalidURL,
            OfflineModeIsEnabled,
            OSError,
            ValueError,
            ImportError,
        ) as error:
            raise no_answer(error, self.endpoint) from None


def _next_page(headers: Mapping[str, str]) -> str:
    """The query of the "next" link (RFC 8288)."""
    for link in headers.get("link", "").split(","):
        address, _, parameters = link.strip().partition(">")
        if 'rel="next"' in parameters and address.startswith("<"):
            return urlsplit(address[1:]).query
    return ""
