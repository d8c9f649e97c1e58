"""`mlxr rm`: removing a model, with what that frees said before and after, or a place that was imported."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from app.amounts import counted, size
from app.cli.models import scan
from app.cli.terminal import Terminal, open_terminal
from app.downloads.cache_layout import CacheLayout
from app.downloads.journal import waiting_repos
from app.errors import UsageError
from app.hub.repo_id import is_repo
from app.library.hugging_face import cache_folder
from app.library.library import Library, open_library
from app.library.names import folded
from app.library.records import LeftOut
from app.library.removal import Removal, carry_out, plan_leftover, plan_removal
from app.paths import default_paths


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "name",
        metavar="NAME",
        help="the model, as `mlxr models` calls it or as --model takes it; or a repository of the Hugging "
        "Face cache without a model; or a path that you imported, to look there no more",
    )
    parser.add_argument("--yes", action="store_true", help="do it without asking")
    parser.add_argument(
        "--files",
        action="store_true",
        help="also delete the files of a model that you imported; those in the Hugging Face cache go anyway, "
        "and those of other apps never",
    )
    parser.add_argument("--json", action="store_true", help="print what was done as one JSON object")


def run(args: Namespace) -> int:
    """Say what will be, ask, do it, say what was; 1 when the answer was no. Raises AppError."""
    with open_terminal() as terminal:
        return _run(args, terminal)


def _run(args: Namespace, terminal: Terminal) -> int:
    with open_library(default_paths(), terminal.say, must_save=True) as library:
        for note in scan(library, terminal):
            terminal.say(note)
        if library.find(args.name) is None and (place := library.place(args.name)) is not None:
            return _forget_place(place, library, terminal, args)
        removal = _plan(args, library)
        for line in plan_lines(removal):
            terminal.say(line)
        if not _may_go_on(terminal, args):
            return 1
        freed = carry_out(removal, library)
    if args.json:
        done = {"name": removal.model.name, "freed": freed, "deleted": bool(removal.deletes)}
        terminal.answer(json.dumps(done, ensure_ascii=False) + "\n")
    else:
        words = f"deleted: {size(freed)} freed" if removal.deletes else "forgotten; its files stay"
        terminal.answer(f"{removal.model.name} is {words}\n")
    return 0


def _plan(args: Namespace, library: Library) -> Removal:
    """What is to be done. Raises AppError."""
    models = library.models()
    if library.find(args.name) is None and (left := _left_out(args.name, library)) is not None:
        return plan_leftover(left, models, waiting_repos(default_paths().downloads))
    return plan_removal(library.named(args.name), models, files=args.files)


def _left_out(name: str, library: Library) -> LeftOut | None:
    """What is no model, by its path or, where no model is in the repository either, by that."""
    if any(folded(name) == folded(model.origin) and model.state != "gone" for model in library.models()):
        return None  # in whatever case: a Mac's disk finds the same folder
    for left in library.left_out():
        if name in (str(left.path), left.repository):
            return left
    if is_repo(name) and (folder := CacheLayout(cache_folder(), name).folder).is_dir():
        return LeftOut(folder, f"{name} holds no model", repository=name)
    return None


def _forget_place(place: Path, library: Library, terminal: Terminal, args: Namespace) -> int:
    if args.files:
        raise UsageError("--files is for one model; name it as `mlxr models` does")
    names = [model.name for model in library.only_in(place)]
    count = counted(len(names), "model")
    told, done = (f", and {count} of it forgotten", f", with {count}") if names else ("", "")
    terminal.say(f"{place} is looked at no more{told}; all files stay")
    if not _may_go_on(terminal, args):
        return 1
    library.forget_place(place)
    if args.json:
        terminal.answer(json.dumps({"path": str(place), "forgotten": names}, ensure_ascii=False) + "\n")
    else:
        terminal.answer(f"{place} is forgotten{done}; its files stay\n")
    return 0


def _may_go_on(terminal: Terminal, args: Namespace) -> bool:
    if args.yes or _asked(terminal):
        return True
    terminal.say("nothing was changed")
    return False


def plan_lines(removal: Removal) -> list[str]:
    """What will happen, for people."""
    model = removal.model
    if not removal.deletes:
        if model.state == "gone":
            return [f"{model.name}: {removal.why_kept}; it is only forgotten"]
        return [
            f"{model.name} is only forgotten; {size(removal.kept)} in {model.path} stay: {removal.why_kept}"
        ]
    stays = f"; {size(removal.kept)} stay, since others need them" if removal.kept else ""
    lines = [f"{model.name}: {size(removal.freed)} will be freed by deleting {model.path}{stays}"]
    if removal.also_lost:
        lines.append(f"links to these files, and lost with them: {', '.join(removal.also_lost)}")
    return lines


def _asked(terminal: Terminal) -> bool:
    """Whether a person says yes. Raises UsageError where nobody can be asked."""
    if not (sys.stdin.isatty() and terminal.interactive):
        raise UsageError("nobody can be asked here; say --yes if this is meant")
    answer = ""
    try:
        print("Do it? [y/N] ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
    finally:
        if not answer:  # Ctrl-D and Ctrl-C leave the cursor behind the question
            print(file=sys.stderr)
    return answer.strip().casefold() in ("y", "yes")
