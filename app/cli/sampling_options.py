"""The options that say how tokens are drawn, for every subcommand that generates."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace

from app.cli.inputs import natural, token_bias
from app.errors import UsageError
from engine import InvalidRequest, SamplingParams

_SAMPLING = (
    ("--temperature", float, "T", "0 takes the likeliest token; higher is freer"),
    ("--top-k", natural, "K", "draw from the K likeliest tokens only (0: all)"),
    ("--top-p", float, "P", "draw from the likeliest tokens that together reach probability P"),
    ("--min-p", float, "P", "drop tokens below P times the likeliest one's probability"),
    ("--repetition-penalty", float, "R", "above 1 discourages tokens that occurred (1: off)"),
    ("--presence-penalty", float, "R", "subtract R from every token generated so far, once"),
    ("--frequency-penalty", float, "R", "subtract R per occurrence of every token generated so far"),
    ("--seed", natural, "N", "the same seed gives the same text"),
)


def add_sampling_options(parser: ArgumentParser, defaults: SamplingParams) -> None:
    """One option per field of SamplingParams; the help shows `defaults`."""
    group = parser.add_argument_group("sampling")
    for flag, kind, metavar, text in _SAMPLING:
        default = getattr(defaults, _field(flag))
        shown = "" if default is None else f" (default {default:g})"
        group.add_argument(flag, type=kind, metavar=metavar, help=text + shown)
    group.add_argument(
        "--logit-bias",
        type=token_bias,
        metavar="ID=BIAS",
        action="append",
        help="add BIAS to the logit of token ID; may be repeated",
    )


def sampling_params(args: Namespace, defaults: SamplingParams) -> SamplingParams:
    """`defaults` with the options that were given. Raises UsageError, naming the option."""
    names = [_field(flag) for flag, *_ in _SAMPLING]
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.logit_bias is not None:
        given["logit_bias"] = tuple(args.logit_bias)
    try:
        return replace(defaults, **given)
    except InvalidRequest as error:
        raise UsageError(f"--{str(error).replace('_', '-', 1)}") from None


def _field(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")
