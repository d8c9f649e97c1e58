"""What people paste as a repository: its id, its page's address, or either with a quantisation behind."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from app.hub.errors import NotFound

_ID = re.compile(r"[\w][\w.-]{0,95}/[\w][\w.-]{0,95}", re.ASCII)
_OLD_ID = re.compile(r"[\w][\w.-]{0,95}", re.ASCII)
_SCHEMES = ("http", "https", "hf")
_PAGE = re.compile(r"/[^/]+/[^/]+/(?P<kind>blob|resolve|tree|commit)/(?P<revision>[^/]+)(?:/(?P<file>.+))?")


def parse_repo(text: str) -> tuple[str, str | None]:
    """The repository's id and the quantisation behind a colon, if any, of "org/name:q4_k_m".

    Pages' addresses are taken too, such as "https://huggingface.co/org/name/tree/main".
    Raises NotFound, one line, for what can be neither.
    """
    pasted = _pasted(text)
    found = _from_address(pasted) if "://" in pasted else pasted
    repo, _, wanted = found.partition(":")
    if not _ID.fullmatch(repo) and not _OLD_ID.fullmatch(repo):
        raise NotFound(
            f"{pasted!a:.80} is no repository; it is written organisation/name, such as Qwen/Qwen3-0.6B"
        )
    if ".." in repo or "--" in repo or repo.endswith((".", "-", ".git")):
        raise NotFound(f"{pasted!a:.80} cannot be the name of a repository on the Hub; check its spelling")
    return repo, wanted.strip() or None


def named_in_page(text: str) -> tuple[str, str]:
    """The revision and the file whose page's address was pasted, each "" where it names none.

    ".../org/name/blob/main/model.gguf" names "main" and "model.gguf", ".../org/name/tree/v2" only "v2".
    """
    try:
        page = _PAGE.fullmatch(urlsplit(_pasted(text)).path)
    except ValueError:
        page = None
    if page is None:
        return "", ""
    is_file = page["kind"] in ("blob", "resolve")
    return unquote(page["revision"]), unquote(page["file"] or "") if is_file else ""


def _pasted(text: str) -> str:
    return text.strip().strip("\"'<>").strip()


def _from_address(address: str) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    if parts.scheme == "hf":
        return f"{parts.netloc}{parts.path}".strip("/")
    steps = [step for step in parts.path.split("/") if step]
    return "/".join(steps[:2]) if parts.scheme in _SCHEMES else ""


def is_repo(text: str) -> bool:
    """Whether `text` is a repository's id and nothing else."""
    try:
        return parse_repo(text) == (text, None)
    except NotFound:
        return False
