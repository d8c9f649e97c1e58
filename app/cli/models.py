"""`mlxr models`: the models on this machine, and what a person calls them."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import date
from typing import Any

from app.amounts import count, size, tokens
from app.cli.columns import Column, table, terminal_width
from app.cli.model_fits import Fits, fit_words
from app.cli.terminal import Terminal, one_line, open_terminal
from app.errors import AppError, UsageError
from app.library.library import Library, open_library
from app.library.look import look
from app.library.model_settings import ENTRIES, shown, with_setting
from app.library.names import folded
from app.library.records import SOURCES, LeftOut, Model, ModelSettings
from app.paths import default_paths
from app.settings import SettingsFile
from engine import Fit


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="tell all about this one; NAME is also what --model takes"
    )
    parser.add_argument("--all", action="store_true", help="also what cannot be run here, and why")
    parser.add_argument(
        "--rescan", action="store_true", help="look at every model anew, also where its files did not change"
    )
    parser.add_argument(
        "--rename", nargs=2, metavar=("NAME", "NEW"), help="call a model NEW; `--model NEW` opens it then"
    )
    parser.add_argument("--favourite", metavar="NAME", help="let this one stand in front")
    parser.add_argument("--no-favourite", metavar="NAME", help="let it stand in front no more")
    parser.add_argument(
        "--set",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "KEY=VALUE"),
        help=f"set something for one model, may be repeated; without a VALUE as before: "
        f"{', '.join(shown(name) for name in ENTRIES)}",
    )
    parser.add_argument(
        "--updates", action="store_true", help="ask the Hub which of these models there is a newer one of"
    )
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")


def run(args: Namespace) -> int:
    """Change what is to be changed, then list."""
    with open_terminal() as terminal:
        return _run(args, terminal)


def _run(args: Namespace, terminal: Terminal) -> int:
    changes = bool(args.rename or args.set or args.favourite or args.no_favourite)
    with open_library(default_paths(), terminal.say, must_save=changes) as library:
        notes = scan(library, terminal, again=args.rescan)
        _change(args, library, terminal)
        models = library.models() if args.name is None else [library.named(args.name)]
        left_out, fits = library.left_out(), Fits(library.models())
    for note in notes:
        terminal.say(note)
    if args.updates:
        # Imported here: the hub's client and the keychain are for those who ask.
        from app.cli.updates import tell_updates

        tell_updates(models, terminal, as_json=args.json)
        return 0
    if args.json:
        terminal.answer(json.dumps(as_json(models, left_out, fits), indent=2, ensure_ascii=False) + "\n")
        return 0
    if args.name is not None:
        lines = details(models[0], fits)
    else:
        lines = listing(models, left_out, fits, everything=args.all, width=terminal_width(sys.stdout))
    terminal.answer("".join(f"{line}\n" for line in lines))
    return 0


def scan(library: Library, terminal: Terminal, *, again: bool = False) -> tuple[str, ...]:
    """Bring the library up to date, with progress; returns what people should know."""
    return library.refresh(look, lambda done, total: show_progress(terminal, done, total), again=again)


def show_progress(terminal: Terminal, done: int, total: int) -> None:
    """Show how many models' headers were read, as a passing line."""
    if done < total:
        terminal.progress(f"looking at models: {done + 1} of {total}")


def _change(args: Namespace, library: Library, terminal: Terminal) -> None:
    if args.rename:
        name, new = args.rename
        _rename(library, library.named(name), new)
    for name, setting in args.set:
        what, equals, value = setting.partition("=")
        if not equals:  # before the name is looked for: who leaves that out has a key in its place
            raise UsageError(
                f"--set {name} {setting}: a setting is NAME KEY=VALUE, such as guide context=4096"
            )
        model = library.named(name)
        changed = library.save_settings(model, with_setting(model.settings, what, value))
        terminal.note(f"{model.name}: {_settings_words(changed) or 'nothing is set for it alone'}")
    if args.favourite is not None:
        library.set_favourite(library.named(args.favourite), True)
    if args.no_favourite is not None:
        library.set_favourite(library.named(args.no_favourite), False)


def _rename(library: Library, model: Model, new: str) -> None:
    """Call it `new`, also where the settings remember it as the model to open. Raises AppError."""
    new = library.rename(model, new)
    settings = SettingsFile(default_paths().settings)
    last = settings.load().settings.last_model
    if last is not None and folded(last) == folded(model.name):
        problem = settings.update(lambda values: replace(values, last_model=new))
        if problem:
            raise AppError(problem)


def listing(
    models: Sequence[Model],
    left_out: Sequence[LeftOut],
    fits: Fits,
    *,
    everything: bool,
    width: int | None,
) -> Iterable[str]:
    """The table, and what is not in it; `width` is the terminal's."""
    shown = [model for model in models if everything or not _is_hidden(model)]
    columns = (
        Column("NAME", [_marked(model) for model in shown]),
        Column("FAMILY", [one_line(model.facts.family) for model in shown], weight=3),
        Column("SIZE", [size(model.facts.size) for model in shown], is_number=True, weight=8),
        Column("PARAMS", [_told(count, model.facts.parameters) for model in shown], is_number=True, weight=5),
        Column("QUANT", [_quant(model) for model in shown], weight=6),
        Column("CONTEXT", [_told(tokens, model.context_length) for model in shown], is_number=True, weight=2),
        Column("FITS", [fits.cell(model) for model in shown], weight=7),
        Column("FROM", [SOURCES[model.source] for model in shown], weight=4),
        Column("LAST USED", [_when(model.last_used) for model in shown], weight=1),
    )
    yield from table(columns, width)
    hidden = len(models) - len(shown)
    if not everything and (hidden or left_out):
        yield ""
        yield f"{_more(hidden, len(left_out))}; `mlxr models --all` says why"
    if everything:
        unrun = [model for model in shown if model.facts.problem]
        yield from _section("Cannot be run here:", [(one.name, one.facts.problem) for one in unrun])
        yield from _section("Left out:", [(_left_out_words(one), one.problem) for one in left_out])
        if any(one.repository for one in left_out):
            yield ""
            yield "`mlxr rm` with its repository or path deletes what is left out of the Hugging Face cache"


def _is_hidden(model: Model) -> bool:
    """Whether only `--all` lists it: one that is whole and not run here, and one that is whole no more."""
    return bool(model.facts.problem) and not model.favourite


def _more(hidden: int, left_out: int) -> str:
    parts = [f"{hidden} more cannot be run here"] if hidden else []
    parts += [f"{left_out} {'is' if left_out == 1 else 'are'} not whole or not readable"] if left_out else []
    return " and ".join(parts)


def _section(title: str, entries: Sequence[tuple[str, str]]) -> Iterable[str]:
    if entries:
        yield ""
        yield title
        for name, problem in entries:
            yield f"  {one_line(name)}"
            yield f"    {one_line(problem)}"


def _left_out_words(one: LeftOut) -> str:
    words = f"{one.repository}: {one.path}" if one.repository else str(one.path)
    return f"{words} ({size(one.size)})" if one.size else words


def details(model: Model, fits: Fits) -> Iterable[str]:
    """All about one model."""
    facts, fit = model.facts, fits.of(model)
    used = (
        "never"
        if model.last_used is None
        else time.strftime("%Y-%m-%d %H:%M", time.localtime(model.last_used))
    )
    rows = [
        ("name", _marked(model)),
        ("path", str(model.path)),
        ("from", " ".join(filter(None, (SOURCES[model.source], model.origin, model.revision)))),
        (
            "state",
            {"here": "here", "gone": "its files are gone", "damaged": "its files are not whole"}[model.state],
        ),
        ("format", facts.format),
        ("family", facts.family),
        ("size", size(facts.size)),
        ("weights", f"{facts.parameters:,}"),
        ("quantised", facts.quantization or "no"),
        ("context", f"{facts.context_length:,} tokens" if facts.context_length else ""),
        ("memory", size(facts.weight_bytes) if facts.weight_bytes else ""),
        ("fits here", fit_words(fit)),
        ("set for it", _settings_words(model.settings)),
        ("licence", facts.licence),
        ("fingerprint", facts.fingerprint),
        ("last used", used),
        ("problem", facts.problem),
    ]
    return [f"{what:<12}{one_line(words)}" for what, words in rows if words]


def _settings_words(settings: ModelSettings) -> str:
    there = {name: value for name, value in asdict(settings).items() if value not in (None, "")}
    return ", ".join(f"{shown(name)}={value}" for name, value in there.items())


def as_json(models: Sequence[Model], left_out: Sequence[LeftOut], fits: Fits) -> dict[str, Any]:
    """Models and what was left out, as plain values."""
    return {
        "models": [_model_json(model, fits.of(model)) for model in models],
        "left_out": [
            {
                "path": str(one.path),
                "problem": one.problem,
                "bytes": one.size,
                "repository": one.repository or None,
            }
            for one in left_out
        ],
    }


def _model_json(model: Model, fit: Fit | None) -> dict[str, Any]:
    facts = asdict(model.facts)
    del facts["whole"]
    return {
        "name": model.name,
        "path": str(model.path),
        "source": model.source,
        "origin": model.origin,
        "revision": model.revision or None,
        "state": model.state,
        "favourite": model.favourite,
        "last_used": model.last_used,
        "settings": asdict(model.settings),
        **facts,
        "fits": asdict(fit) if fit else None,
    }


def _marked(model: Model) -> str:
    return f"★ {model.name}" if model.favourite else model.name


def _told(words: Callable[[int], str], number: int) -> str:
    return words(number) if number else "–"


def _quant(model: Model) -> str:
    return one_line((model.facts.quantization or "–").partition(",")[0])


def _when(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    day = date.fromtimestamp(seconds)
    ago = (date.today() - day).days
    if ago < 1:
        return "today"
    return "yesterday" if ago == 1 else f"{ago} days ago" if ago < 30 else day.isoformat()
