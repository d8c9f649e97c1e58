"""From a request to the files it needs, as one commit of the repository has them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from app.downloads.digest import GIT, SHA256
from app.downloads.faults import fault
from app.downloads.hub import Hub
from app.downloads.retry import Attempts, Retry
from app.downloads.wanted import Plan, PlannedFile, Wanted
from app.errors import DownloadFailed
from app.hub.choice import Choice, RepoFile
from app.hub.choices import find_choice, recommend
from app.hub.details import RepoDetails, read_details
from app.hub.errors import BadAnswer, HubError
from app.hub.file_names import refusals

_COMMIT = re.compile(r"[0-9a-f]{40}")


def make_plan(hub: Hub, wanted: Wanted, memory: int, attempts: Attempts) -> Plan:
    """The files that `wanted` needs; without a word on which, the best for a machine with `memory` bytes.

    Raises DownloadFailed, and Stopped while it waits for another try.
    """
    details = _details(hub, wanted, attempts)
    if not _COMMIT.fullmatch(details.commit):
        raise DownloadFailed(f"the hub does not say which commit of {wanted.repo} it describes")
    if wanted.file:
        return Plan(details.commit, _verifiable(_one_file(wanted.file, details)))
    choice = _choice(details, wanted, memory)
    key = choice.key if len(details.choices.choices) > 1 else ""
    if choice.unsupported:
        raise DownloadFailed(f"{wanted.repo}{f':{key}' if key else ''}: {choice.unsupported}")
    return Plan(details.commit, _verifiable(choice.files), key)


def _details(hub: Hub, wanted: Wanted, attempts: Attempts) -> RepoDetails:
    """What the hub says now. A person waits for it: that there is no network is said at once."""
    while True:
        try:
            return read_details(hub.client, wanted.repo, wanted.revision)
        except HubError as error:
            problem = fault(error, may_pass=isinstance(error, BadAnswer))
            if not isinstance(problem, Retry):
                raise problem from None
            attempts.failed(problem, progressed=False)


def _choice(details: RepoDetails, wanted: Wanted, memory: int) -> Choice:
    choices = details.choices.choices
    if not choices:
        why = f" ({'; '.join(details.choices.left_out[:3])})" if details.choices.left_out else ""
        raise DownloadFailed(f"{wanted.repo} holds no model that MLXR reads{why}")
    if wanted.quant:
        try:
            return find_choice(choices, wanted.quant)
        except HubError as error:
            raise DownloadFailed(f"{wanted.repo}: {error}") from None
    best = choices[0] if len(choices) == 1 else recommend(choices, memory)
    if best is None:
        there = ", ".join(choice.key for choice in choices[:12])
        raise DownloadFailed(
            f"{wanted.repo}: nothing in it runs and fits here; name one all the same after a colon: {there}"
        )
    return best


def _one_file(name: str, details: RepoDetails) -> tuple[RepoFile, ...]:
    """The file, with the other parts where it is a part of a split model."""
    if why := refusals(file.name for file in details.files).get(name):
        raise DownloadFailed(f"{name!a:.120} {why}, so it is not downloaded")
    for choice in details.choices.choices:
        if choice.format == "gguf" and name in {file.name for file in choice.files}:
            return choice.files
    for file in details.files:
        if file.name == name:
            return (file,)
    there = ", ".join(sorted(file.name for file in details.files)[:8]) or "none"
    raise DownloadFailed(f"{details.repo} has no file {name!a:.120}; it has {there:.400}")


def _verifiable(files: Iterable[RepoFile]) -> tuple[PlannedFile, ...]:
    """The files with their checksums, which become names on the disk: every field is a stranger's."""
    planned: list[PlannedFile] = []
    sizes: dict[str, int] = {}
    for file in files:
        blob = file.sha256 or file.git_sha1 or ""
        form = SHA256 if file.sha256 else GIT
        if not form.fullmatch(blob) or file.size is None or file.size < 0:
            raise DownloadFailed(
                f"the hub gives no size and checksum of {file.name}, so it is not verifiable"
            )
        if sizes.setdefault(blob, file.size) != file.size:
            raise DownloadFailed(f"the hub gives two sizes for the content of {file.name}, which cannot be")
        planned.append(PlannedFile(file.name, file.size, blob))
    return tuple(planned)
