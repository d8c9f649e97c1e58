"""What went wrong on the way to the Hub, in one line that says what to do."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from app.hub.errors import AccessNeeded, BadAnswer, BadToken, HubError, NotFound, RateLimited, Unreachable

HUB = "https://huggingface.co"
_NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN)
_RESET = re.compile(r'"[^"]*"\s*;\s*r\s*=\s*0\s*;\s*t\s*=\s*(\d{1,8})')
"""The Hub's RateLimit header (IETF draft, version 09): nothing remains, and seconds until something does."""


def place(endpoint: str) -> str:
    """The server for people: the Hub, or the mirror that HF_ENDPOINT names, without any password in it."""
    if endpoint.rstrip("/") == HUB:
        return "the Hub (huggingface.co)"
    return f"the mirror {_without_password(endpoint)} (HF_ENDPOINT)"


def no_answer(error: Exception, endpoint: str) -> HubError:
    """For an exception that ended a request before an answer was there."""
    where = place(endpoint)
    causes = list(_causes(error))
    names = {type(cause).__name__ for cause in causes}
    if "OfflineModeIsEnabled" in names:
        return Unreachable(
            "offline: HF_HUB_OFFLINE is set, so nothing is asked of the Hub; unset it to search"
        )
    if names & {"InvalidURL", "UnsupportedProtocol"}:
        return Unreachable(f"{where} has no address that can be asked; give one that begins with https://")
    proxy = _proxy(endpoint)
    if "ImportError" in names:
        return Unreachable(f"{proxy} speaks SOCKS, which MLXR does not; set HTTPS_PROXY to an HTTP proxy")
    if "ProxyError" in names or any("proxy" in str(cause).lower() for cause in causes):
        through = proxy or "a proxy"
        return Unreachable(f"{through} does not let requests through to {where}; check its settings")
    if any("CERTIFICATE_VERIFY_FAILED" in str(cause) for cause in causes):
        return Unreachable(
            f"{where} has a certificate that cannot be verified; check this machine's date, and whether a "
            "proxy or a virus scanner reads along"
        )
    if any(isinstance(cause, TimeoutError) or "Timeout" in type(cause).__name__ for cause in causes):
        return Unreachable(f"{proxy or where} did not answer in time; check the network and try again")
    if any(isinstance(cause, socket.gaierror) for cause in causes) or _errnos(causes) & set(_NO_ROUTE):
        return Unreachable(f"offline: {proxy or where} cannot be found from here; check the network")
    if errno.ECONNREFUSED in _errnos(causes):
        return Unreachable(f"{proxy or where} refuses connections; check the network, or try again later")
    return Unreachable(f"the connection to {where} broke off; check the network and try again")


def refusal(
    status: int, headers: Mapping[str, str], endpoint: str, what: str, *, repo: str | None, had_token: bool
) -> HubError:
    """For an answer that is none.

    Args:
        status: of HTTP, 400 or more.
        headers: of the answer, by names in lower case.
        what: that was asked for, for people: "org/name", "the search".
        repo: that was asked about, if any.
        had_token: whether a token was sent.
    """
    code, said = headers.get("x-error-code", ""), plain(headers.get("x-error-message", ""))
    where = place(endpoint)
    if repo and had_token and "fine-grained" in said.lower():
        page = f"{endpoint}/settings/tokens"
        return AccessNeeded(
            f"{repo} is gated, and the token may not read gated models: allow it at {page}", page
        )
    if code == "GatedRepo" and repo:
        return _gated(said, f"{endpoint}/{repo}", repo, had_token=had_token)
    if code in ("RepoNotFound", "RevisionNotFound", "EntryNotFound") or status == 404:
        return NotFound(_not_found(code, where, what, had_token=had_token))
    if status == 401 and (had_token or repo is None):
        return BadToken(f"{where} does not take the token; make a new one at {endpoint}/settings/tokens")
    if status == 401:
        return NotFound(_not_found("RepoNotFound", where, what, had_token=False))
    if status == 407:
        return Unreachable(
            f"{_proxy(endpoint) or 'a proxy'} wants a name and a password; put them into its address"
        )
    if status == 429:
        return _rate_limited(headers, where)
    if status == 403:
        return BadAnswer(f"{where} refuses {what}{f': {said}' if said else ''}")
    if status >= 500:
        return BadAnswer(f"{where} has trouble (HTTP {status}); try again later")
    return BadAnswer(
        f"{where} did not understand the request for {what} (HTTP {status}{f': {said}' if said else ''})"
    )


def no_data(endpoint: str, *, is_page: bool) -> BadAnswer:
    """For an answer that is not the Hub's: a web page, or data of another shape."""
    where = place(endpoint)
    if not is_page:
        return BadAnswer(f"{where} answered something that cannot be read; try again later")
    own = "" if endpoint.rstrip("/") == HUB else ", or HF_ENDPOINT names no mirror of the Hub"
    return BadAnswer(
        f"{where} answered with a web page instead of data: this network may want you to sign in first "
        f"(open any page in a browser){own}"
    )


def plain(text: str, most: int = 160) -> str:
    """A stranger's text as one printable line of at most `most` characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _gated(said: str, url: str, repo: str, *, had_token: bool) -> AccessNeeded:
    if "await" in said.lower():
        waiting = f"{repo} is gated: its authors have not yet answered your request; see {url}"
        return AccessNeeded(waiting, url, is_pending=True)
    if had_token:
        return AccessNeeded(f"{repo} is gated: ask for access, or accept its licence, at {url}", url)
    return AccessNeeded(
        f"{repo} is gated: accept its licence at {url}, then give MLXR a token of that account, on the "
        "models page or as HF_TOKEN",
        url,
    )


def _not_found(code: str, where: str, what: str, *, had_token: bool) -> str:
    if code == "EntryNotFound":
        return f"{where} has no {what}; look at the repository's files"
    if code == "RevisionNotFound":
        return f"{where} has no such revision: {what}; check its spelling, or leave it out for the newest"
    private = "whether this account may see it" if had_token else "or give MLXR a token if it is private"
    return f"{where} has no {what}; check its spelling, {private}"


def _rate_limited(headers: Mapping[str, str], where: str) -> RateLimited:
    said = headers.get("retry-after", "").strip()
    reset = _RESET.search(headers.get("ratelimit", ""))
    seconds = int(reset[1]) if reset else int(said) if said.isdecimal() and len(said) < 8 else None
    when = "in a few minutes" if seconds is None else f"in {_duration(seconds)}"
    return RateLimited(f"too many requests: {where} wants to be asked again {when}", seconds)


def _duration(seconds: int) -> str:
    if seconds < 100:
        return "a second" if seconds <= 1 else f"{seconds} seconds"
    return f"{-(-seconds // 60)} minutes"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _errnos(causes: list[BaseException]) -> set[int]:
    return {cause.errno for cause in causes if isinstance(cause, OSError) and cause.errno is not None}


def _proxy(endpoint: str) -> str:
    """The proxy that requests to `endpoint` go through, without any password in it; "" where none is set."""
    try:
        parts = urlsplit(endpoint)
        if proxy_bypass(parts.hostname or ""):
            return ""
    except ValueError:
        return ""
    proxies = getproxies()
    named = proxies.get(parts.scheme) or proxies.get("all")
    return f"the proxy {_without_password(named)}" if named else ""


def _without_password(address: str) -> str:
    try:
        parts = urlsplit(address)
        host = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    except ValueError:
        return "with an address that cannot be read"
    if not host:
        return plain(address.rpartition("@")[2], 80)
    return plain(f"{parts.scheme}://{host}{parts.path.rstrip('/')}", 80)
