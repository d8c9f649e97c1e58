"""`mlxr chat`: a conversation in the terminal, or one answer to an argument or to text from a pipe."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path

from app.chat_sampling import CHAT_SAMPLING, chat_sampling
from app.cli.conversation import Conversation
from app.cli.inputs import checked_argument, positive, read_standard_input
from app.cli.model_option import add_draft_option, add_model_option
from app.cli.opening import open_session
from app.cli.prompt_line import PromptLine
from app.cli.sampling_options import add_sampling_options, sampling_params
from app.cli.terminal import Terminal, open_terminal
from app.errors import AppError, RequestFailed, UsageError
from app.library.lookup import settings_at
from app.model_location import remembered
from app.paths import default_paths
from app.settings import SettingsFile
from engine import SamplingParams

INTERRUPTED = 130
TOO_MUCH = ("PromptTooLong", "Refused")
"""What fails with a chat's length, as with a message's."""
HELP = (
    "/new starts a new chat.",
    "/stats says what the chat holds in memory.",
    "/quit leaves; Ctrl-D does too.",
    "Ctrl-C stops an answer. A line that ends in \\ goes on in the next one.",
    "A message that begins with / is written with a blank before it; a path needs none.",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    add_model_option(parser)
    add_draft_option(parser)
    parser.add_argument("--system", metavar="S", help="what the model is told before the chat")
    parser.add_argument("--max-tokens", type=positive, metavar="N", help="most tokens of an answer")
    add_sampling_options(parser, CHAT_SAMPLING)
    parser.add_argument(
        "text",
        nargs="*",
        metavar="PROMPT",
        help="answer this and end; text from a pipe is added to it. Without it and a pipe: a conversation",
    )


def run(args: Namespace) -> int:
    """Chat; 0, or 130 when Ctrl-C cut the only answer short."""
    checked_argument(args.system, "--system")
    sampling_params(args, SamplingParams())  # refuses nonsense before the model is loaded
    with open_terminal() as terminal:
        return _run(args, terminal)


def _run(args: Namespace, terminal: Terminal) -> int:
    question = _question(args)
    if question is not None and not question.strip():
        raise UsageError("there is nothing to answer: the prompt is empty")
    with open_session(args, terminal) as (session, model):
        if not model.has_chat_template:
            raise AppError(
                f"{model.name} has no chat template, so it cannot chat; "
                "choose a model made for chat (instruct), or use `mlxr generate --raw`"
            )
        _remember(args, terminal)
        own = settings_at(Path(model.path), default_paths())
        sampling = sampling_params(args, chat_sampling(Path(model.path), own=own))
        system = own.system if args.system is None else args.system
        chat = Conversation(session, model, terminal, sampling, system, args.max_tokens)
        try:
            if question is not None:
                return INTERRUPTED if chat.ask(question).reason == "cancelled" else 0
            _converse(chat, terminal)
        finally:
            try:
                chat.forget()
            except BaseException:  # a signal, which raises once: a closed terminal is an end of input first
                chat.forget()
                raise
    return 0


def _question(args: Namespace) -> str | None:
    """The only question of this run, or None for a conversation."""
    words: list[str] = args.text
    if len(words) > 1:
        raise UsageError(f'the prompt came in {len(words)} pieces; put it in quotes: mlxr chat "…"')
    given = checked_argument(words[0] if words else None, "the prompt")
    if sys.stdin.isatty():
        return given
    piped = read_standard_input().strip("\r\n")
    return "\n\n".join(part for part in (given, piped) if part)


def _remember(args: Namespace, terminal: Terminal) -> None:
    """A model that was named and loaded is the one to open next time."""
    spec: str | None = getattr(args, "model", None)
    if spec is None:
        return
    problem = SettingsFile(default_paths().settings).update(lambda s: replace(s, last_model=remembered(spec)))
    if problem:
        terminal.note(problem)


def _converse(chat: Conversation, terminal: Terminal) -> None:
    terminal.note(f"{chat.model.name}: type a message; /help lists what else there is")
    prompt = PromptLine(terminal.interactive)
    while (text := prompt.read()) is not None:
        match text.rstrip():
            case blank if not blank.strip():
                continue
            case "/quit" | "/exit":
                return
            case "/help":
                for line in HELP:
                    terminal.say(line)
            case "/new":
                chat.restart()
                terminal.note("a new chat")
            case "/stats":
                terminal.say(chat.stats())
            case command if is_command(command):
                terminal.say(f"there is no {command.splitlines()[0]}; /help lists what there is")
            case _:
                _answer(chat, text, terminal)


def is_command(line: str) -> bool:
    """Whether a line is meant for the chat, not for the model: it begins with / and is no path."""
    first, *_ = line.split(maxsplit=1)
    return line.startswith("/") and "/" not in first[1:]


def _answer(chat: Conversation, text: str, terminal: Terminal) -> None:
    """Answer within a conversation: a failed request is reported and the chat goes on."""
    try:
        chat.ask(text)
    except RequestFailed as error:
        terminal.say(f"error: {error}")
        if chat.has_begun and error.kind in TOO_MUCH:
            terminal.note("/new starts a new chat")
