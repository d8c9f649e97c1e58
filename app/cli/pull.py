"""`mlxr pull`: a model from a Hugging Face hub into the Hugging Face cache, resumed where it stopped."""

from __future__ import annotations

import json
import shlex
from argparse import ArgumentParser, Namespace
from contextlib import closing
from queue import SimpleQueue

from app.cli.pull_words import PullWords, result_lines
from app.cli.terminal import Terminal, open_terminal
from app.downloads.download import Means
from app.downloads.events import END, Cancelled, DownloadEvent, Failed, Finished, Paused
from app.downloads.hub import default_hub
from app.downloads.journal import Journal
from app.downloads.lanes import Lanes
from app.downloads.queue import DownloadQueue
from app.downloads.wanted import MAIN, Wanted, parse_wanted
from app.errors import AppError, UsageError
from app.hub.keychain import SystemKeychain
from app.hub.token import TokenStore
from app.paths import default_paths
from app.settings import SettingsFile

INTERRUPTED = 130
CLOSE_SECONDS = 15.0


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "repo",
        nargs="?",
        metavar="REPO[:QUANT]",
        help="a repository such as Qwen/Qwen3-0.6B, and which of its quantisations; "
        "without one, unfinished downloads go on",
    )
    parser.add_argument("--file", default="", metavar="NAME", help="only this file of the repository")
    parser.add_argument("--revision", metavar="R", help="a branch, tag or commit (default: main)")
    parser.add_argument(
        "--cancel", action="store_true", help="give an unfinished download up and remove what there is of it"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON, one line a download")


def run(args: Namespace) -> int:
    """Download and say what came of it. Ctrl-C pauses."""
    if args.repo is None and (args.file or args.revision):
        raise UsageError("--file and --revision belong to a repository; name one")
    wanted = None if args.repo is None else parse_wanted(args.repo, args.file, args.revision or MAIN)
    with open_terminal() as terminal, closing(Journal(default_paths().downloads)) as journal:
        if journal.problem:
            terminal.say(journal.problem)
        return _Pull(terminal, journal, as_json=args.json).run(wanted, is_cancel=args.cancel)


class _Pull:
    """One run: what is asked goes into a queue, what the queue tells comes to the terminal."""

    def __init__(self, terminal: Terminal, journal: Journal, *, as_json: bool) -> None:
        self._terminal = terminal
        self._journal = journal
        self._as_json = as_json
        self._events: SimpleQueue[DownloadEvent] = SimpleQueue()
        chosen = SettingsFile(default_paths().settings).load().settings
        lanes = Lanes(int(chosen.files_at_once))
        means = Means(default_hub(TokenStore(SystemKeychain()).get), lanes=lanes)
        self._queue = DownloadQueue(means, journal, self._events.put)
        self._words = PullWords(terminal)
        self._asked: dict[int, Wanted] = {}
        self._failed: list[str] = []

    def run(self, wanted: Wanted | None, *, is_cancel: bool) -> int:
        """Do what was asked, to the end. Raises AppError when a download failed."""
        if is_cancel:
            self._ask_to_cancel(wanted)
        elif wanted is not None:
            self._asked[self._queue.add(wanted)] = wanted
        else:
            for entry in self._journal.pending():
                self._asked[entry.id] = entry.wanted
                self._queue.resume(entry)
        if not self._asked:
            advice = "" if is_cancel else "; name a repository to download: mlxr pull ORG/NAME"
            self._terminal.say(f"no download is unfinished{advice}")
            return 0
        self._queue.start()
        try:
            return self._follow()
        finally:
            self._queue.close(CLOSE_SECONDS)

    def _ask_to_cancel(self, wanted: Wanted | None) -> None:
        """Give up what is unfinished of it, all without a word. Raises AppError where nothing is."""
        pending = self._journal.pending()
        entries = [entry for entry in pending if wanted is None or _is_part_of(entry.wanted, wanted)]
        if wanted is not None and not entries:
            others = ", ".join(entry.wanted.title for entry in pending[:8])
            raise AppError(
                f"no download of {wanted.title} is unfinished; "
                + (f"unfinished: {others}" if others else "none is")
            )
        for entry in entries:
            self._asked[entry.id] = entry.wanted
            self._queue.cancel(entry)

    def _follow(self) -> int:
        left, is_interrupted = set(self._asked), False
        while left:
            try:
                event = self._events.get()
                if isinstance(event, END):
                    left.discard(event.id)
                self._tell(event)
            except KeyboardInterrupt:
                if is_interrupted:  # it takes too long: what is there stays all the same
                    raise
                is_interrupted = True
                for id_ in left:
                    self._queue.pause(id_)
        if is_interrupted:
            return INTERRUPTED
        if self._failed:
            raise AppError(self._failed[0])
        return 0

    def _tell(self, event: DownloadEvent) -> None:
        wanted = self._asked[event.id]
        if isinstance(event, Failed):
            more = f"; `{_command(wanted)}` goes on where it stopped" if event.is_resumable else ""
            self._fail(f"{event.words}{more}")
        elif isinstance(event, Finished):
            self._finish(event, wanted)
        elif isinstance(event, Paused):
            self._terminal.say(f"{wanted.title}: paused; `{_command(wanted)}` goes on where it stopped")
        elif isinstance(event, Cancelled):
            self._terminal.say(f"{wanted.title}: given up, and what there was of it is removed")
        else:
            self._words.tell(event, wanted)

    def _fail(self, words: str) -> None:
        """The first failure is the command's own, told at its end."""
        if self._failed:
            self._terminal.say(f"error: {words}")
        self._failed.append(words)

    def _finish(self, event: Finished, wanted: Wanted) -> None:
        if self._as_json:
            self._terminal.answer(json.dumps(_as_json(event, wanted), ensure_ascii=False) + "\n")
        else:
            self._terminal.answer("".join(f"{line}\n" for line in result_lines(event, wanted)))


def _is_part_of(one: Wanted, asked: Wanted) -> bool:
    """Whether a request is the one that was asked about, or of the repository where no more was said."""
    return one == asked or asked == Wanted(one.repo)


def _command(wanted: Wanted) -> str:
    """What to type to go on with the download."""
    parts = ["mlxr", "pull", wanted.title]
    if wanted.file:
        parts += ["--file", wanted.file]
    if wanted.revision != MAIN:
        parts += ["--revision", wanted.revision]
    return shlex.join(parts)


def _as_json(event: Finished, wanted: Wanted) -> dict[str, object]:
    return {
        "repo": wanted.repo,
        "revision": wanted.revision,
        "commit": event.plan.commit,
        "path": str(event.path),
        "files": [
            {"name": file.name, "bytes": file.size, "checksum": file.blob} for file in event.plan.files
        ],
        "bytes": event.plan.size,
        "fetched_bytes": event.fetched,
    }
