"""Which of the hub's errors may pass, so that asking again helps."""

from __future__ import annotations

import httpx2

from app.downloads.retry import PlanRefuted, Retry
from app.errors import DownloadFailed
from app.hub.errors import BadAnswer, HubError, NoSuchChoice, NotFound, RateLimited, Unreachable
from app.hub.failures import no_answer, refusal

_PASSING = (408, 425, 429, 500, 502, 503, 504)


def broken(error: httpx2.HTTPError, endpoint: str) -> Retry:
    """For a request for a file that ended without its answer, or in the middle of it."""
    is_connected = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError)
    is_stall = is_connected and isinstance(error, httpx2.TimeoutException)
    return Retry(_what(no_answer(error, endpoint)), is_stall=is_stall)


def refused(response: httpx2.Response, endpoint: str, repo: str, name: str, *, had_token: bool) -> Exception:
    """For an answer with a status of 400 or more to a request for a file: an error to raise."""
    headers = {key.lower(): value for key, value in response.headers.items()}
    what = f"{name} of {repo}"
    error = refusal(response.status_code, headers, endpoint, what, repo=repo, had_token=had_token)
    if isinstance(error, NotFound):
        return PlanRefuted(str(error))
    return fault(error, may_pass=response.status_code in _PASSING)


def fault(error: HubError, *, may_pass: bool) -> Retry | DownloadFailed:
    """`error` as something to try again, or as the end; the hub's own wish to wait is kept."""
    if isinstance(error, RateLimited):
        return Retry(_what(error), wait=error.retry_s)
    if may_pass and isinstance(error, BadAnswer | Unreachable):
        return Retry(_what(error))
    return DownloadFailed(str(error), is_resumable=not isinstance(error, NotFound | NoSuchChoice))


def _what(error: HubError) -> str:
    """What happened, without the advice behind it: MLXR follows that by itself."""
    return str(error).partition(";")[0]
