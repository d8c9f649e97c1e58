"""The one request: a GET of a file over https that says nothing of who asks.

No cookie, no identifier, no version and no machine are sent; the server sees the address that the request
comes from, and that it is an MLXR.
"""

from __future__ import annotations

import ssl
import time

import httpx2

from app.updates.errors import Offline, Refused
from app.updates.manifest import MOST_BYTES

HEADERS = {"User-Agent": "MLXR", "Accept": "application/json", "Accept-Encoding": "identity"}
PATIENCE = httpx2.Timeout(10.0)  # seconds, for each step of it
MOST_SECONDS = 30.0


def fetch(address: str, certificates: ssl.SSLContext | None = None) -> bytes:
    """The bytes at `address`, at most MOST_BYTES.

    Args:
        address: begins with https://.
        certificates: whom to trust; None for those that everybody does.

    Raises Offline where no connection was made, Refused for an address or an answer that is not taken.
    """
    url = httpx2.URL(address)
    if url.scheme != "https":
        raise Refused("updates are asked for over https alone; the address that is built in is another")
    try:
        verify = certificates or httpx2.create_ssl_context()
        with (
            httpx2.Client(headers=HEADERS, timeout=PATIENCE, verify=verify, follow_redirects=False) as client,
            client.stream("GET", url) as response,
        ):
            _check(response, url.host)
            return _read(response, url.host)
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
        if "CERTIFICATE" in str(error).upper():
            raise Refused(
                f"{url.host} has a certificate that cannot be verified, so it was not asked; check this "
                "machine's date, and whether a proxy or a virus scanner reads along"
            ) from None
        raise Offline(f"{url.host} cannot be reached; check the network and try again") from None
    except httpx2.HTTPError:
        raise Refused(f"{url.host} broke off before it had answered; try again later") from None


def _check(response: httpx2.Response, host: str) -> None:
    if response.is_redirect:
        raise Refused(f"{host} sends the question on to another address, which is not followed")
    if response.status_code != 200:
        raise Refused(f"{host} has no list of releases (HTTP {response.status_code}); try again later")
    if "Content-Encoding" in response.headers:
        raise Refused(f"{host} sent the list of releases in a form that was not asked for")


def _read(response: httpx2.Response, host: str) -> bytes:
    end = time.monotonic() + MOST_SECONDS
    data = bytearray()
    for chunk in response.iter_raw():
        data += chunk
        if len(data) > MOST_BYTES:
            raise Refused(f"{host} sent more than a list of releases can hold, so it is not taken")
        if time.monotonic() > end:
            raise Refused(f"{host} answers too slowly; try again later")
    return bytes(data)
