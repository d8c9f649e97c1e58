"""`mlxr generate`: one completion, streamed as text or printed as JSON."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import asdict

from app.cli.inputs import checked_argument, natural, positive, read_text_file, token_ids
from app.cli.model_option import add_draft_option, add_model_option
from app.cli.opening import open_session
from app.cli.sampling_options import add_sampling_options, sampling_params
from app.cli.terminal import Terminal, open_terminal
from app.errors import UsageError
from engine import Event, Finished, Generate, Message, ModelInfo, SamplingParams, TextChunk, launches_of

INTERRUPTED = 130
_C1_CONTROLS = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    add_model_option(parser)
    add_draft_option(parser)
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument(
        "--prompt", metavar="T", help="the prompt; the model's chat template is put around it"
    )
    prompt.add_argument(
        "--prompt-file", metavar="F", help="read the prompt from file F (- is standard input)"
    )
    prompt.add_argument("--tokens", type=token_ids, metavar="1,2,3", help="exact token ids as the prompt")
    parser.add_argument(
        "--raw", action="store_true", help="send the prompt as it is, without the chat template"
    )
    parser.add_argument(
        "--max-tokens", type=positive, metavar="N", help="most tokens (default: up to the context)"
    )
    parser.add_argument(
        "--stop", action="append", default=[], metavar="S", help="end before text S; may be repeated"
    )
    parser.add_argument("--ignore-eos", action="store_true", help="go on past the model's end-of-text tokens")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument(
        "--logprobs",
        type=natural,
        metavar="K",
        help="with --json: log-probabilities, and the K likeliest tokens",
    )
    add_sampling_options(parser, SamplingParams())


def run(args: Namespace) -> int:
    """Complete once; 0, or 130 after Ctrl-C."""
    if args.logprobs is not None and not args.json:
        raise UsageError("--logprobs needs --json: the text alone has no place for them")
    if "" in args.stop:
        raise UsageError("--stop is empty; give the text to stop at")
    for text in args.stop:
        checked_argument(text, "--stop")
    sampling = sampling_params(args, SamplingParams())
    prompt = _prompt(args)
    with open_terminal() as terminal, open_session(args, terminal) as (session, model):
        request = _request(args, prompt, sampling, model, terminal, session.new_chat())
        try:
            finished = session.complete(
                request, lambda event: None if args.json else _stream(event, terminal)
            )
        finally:
            try:
                session.forget(request.chat)
            except BaseException:  # a signal, which raises once
                session.forget(request.chat)
                raise
        if args.json:
            terminal.answer(json_line(as_json(finished, model)))
    return INTERRUPTED if finished.reason == "cancelled" else 0


def as_json(finished: Finished, model: ModelInfo) -> dict[str, object]:
    """The contract's JSON object for one completion.

    `launches` are those of its decode steps, by name; `kernels` is the part of them that are ours, null where
    there were none.
    """
    launches = finished.launches
    logprobs = None if finished.logprobs is None else [asdict(token) for token in finished.logprobs]
    return {
        "prompt_tokens": finished.prompt_tokens,
        "tokens": finished.tokens,
        "text": finished.text,
        "finish_reason": finished.reason,
        "logprobs": logprobs,
        "timing": asdict(finished.timing),
        "executor": model.executor,
        "executor_reason": model.executor_reason,
        "kernel_notes": model.kernel_notes,
        "launches": launches,
        "kernels": launches_of("ours", launches) / sum(launches.values()) if launches else None,
    }


def json_line(value: Mapping[str, object]) -> str:
    """`value` as one line of JSON; control characters are escaped, since they could drive a terminal."""
    return json.dumps(value, ensure_ascii=False).translate(_C1_CONTROLS) + "\n"


def _prompt(args: Namespace) -> str | None:
    if args.prompt_file is not None:
        return read_text_file(args.prompt_file)
    return checked_argument(args.prompt, "--prompt")


def _request(
    args: Namespace,
    prompt: str | None,
    sampling: SamplingParams,
    model: ModelInfo,
    terminal: Terminal,
    chat: str,
) -> Generate:
    templated = prompt is not None and not args.raw
    if templated and not model.has_chat_template:
        terminal.say(f"{model.name} has no chat template: the prompt is sent as it is (--raw)")
        templated = False
    return Generate(
        id="",
        messages=(Message("user", prompt),) if templated and prompt is not None else None,
        prompt=None if templated else prompt,
        tokens=args.tokens,
        sampling=sampling,
        max_tokens=args.max_tokens,
        stop=tuple(args.stop),
        logprobs=args.logprobs,
        ignore_eos=args.ignore_eos,
        chat=chat,
    )


def _stream(event: Event, terminal: Terminal) -> None:
    if isinstance(event, TextChunk):
        terminal.answer(event.text)
