"""What a person asked to download, and the files that make it up."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import UsageError
from app.hub.errors import NotFound
from app.hub.file_names import refusals
from app.hub.repo_id import named_in_page, parse_repo

MAIN = "main"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request.

    Attributes:
        repo: "organisation/name" on the hub.
        quant: the choice in the repository, such as "q4_k_m"; "" leaves it to MLXR.
        file: one file of the repository, and nothing else; "" for all that the model needs.
        revision: a branch, tag or commit.
    """

    repo: str
    quant: str = ""
    file: str = ""
    revision: str = MAIN

    @property
    def title(self) -> str:
        """The request as people type it, without options."""
        return f"{self.repo}:{self.quant}" if self.quant else self.repo


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file to fetch.

    Attributes:
        name: its path in the repository, safe below any folder.
        size: in bytes.
        blob: what the cache calls its content: its SHA-256, or, for what lies in git itself, git's SHA-1.
    """

    name: str
    size: int
    blob: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything one request needs.

    Attributes:
        commit: of the repository.
        files: as they are in it; the weights first.
        choice: which of the models in the repository it is, such as "q4_k_m"; "" where there is one only.
    """

    commit: str
    files: tuple[PlannedFile, ...]
    choice: str = ""

    @property
    def size(self) -> int:
        """Bytes of all files; what two files share is counted once."""
        return sum({file.blob: file.size for file in self.files}.values())


def parse_wanted(text: str, file: str = "", revision: str = MAIN) -> Wanted:
    """`REPO`, `REPO:QUANT` or a page's address as typed. Raises UsageError.

    The address of a GGUF file's page asks for this file; that of another file for the model around it.
    """
    try:
        repo, quant = parse_repo(text)
    except NotFound as error:
        raise UsageError(str(error)) from None
    page_revision, page_file = named_in_page(text)
    revision = page_revision if page_revision and revision == MAIN else revision
    file = page_file if page_file.lower().endswith(".gguf") and not file else file
    if quant and file:
        raise UsageError(f"give either the choice {quant:.40} or --file, not both")
    for option, name in (("--file", file), ("--revision", revision)):
        if name and (why := refusals([name]).get(name)):
            raise UsageError(f"{option} {name!a:.80} {why}")
    return Wanted(repo, (quant or "").casefold(), file, revision or MAIN)
