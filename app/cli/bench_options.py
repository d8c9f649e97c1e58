"""The options of `mlxr bench`, and the plan they make: what is measured, how often, of which model."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from dataclasses import replace

from app.cli.cache_speed import CACHE_PLAN, FEWEST, MOST_ANSWERS, PARTS
from app.cli.cache_speed_scene import CachePlan
from app.cli.inputs import positive
from app.cli.model_option import add_model_option
from app.cli.speed import Plan
from app.errors import UsageError
from engine import QUANTS, SHAPES

MODEL_PLAN = Plan((200, 4000), (200, 4000), (), None, 7, 64)
"""What is measured of a model when nothing else is asked for."""
SHAPE_PLAN = Plan((128, 2048, 8192), (5, 32, 128, 512, 2048, 8192), (1, 8, 32), (8192, 2048), 7, 128)
"""What is measured of a shape when nothing else is asked for."""
NONE = "none"


def add_bench_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    add_model_option(parser, otherwise="the guide, for which the targets are")
    parser.add_argument(
        "--shape", choices=tuple(SHAPES), help="measure random weights of this shape instead of a model"
    )
    parser.add_argument(
        "--quant",
        choices=QUANTS,
        help="the shape's weights: float16 (none), packed by MLX to 4 or 8 bits, or in blocks of a GGUF file "
        "(q4_k, q6_k, q8_0), which mlx-lm has packed by MLX beside it",
    )
    _add_sizes(parser)
    _add_cache(parser)
    parser.add_argument(
        "--pairs",
        type=positive,
        metavar="N",
        help=f"measurements of each side (default: 7; with --cache {CACHE_PLAN.pairs})",
    )
    parser.add_argument(
        "--vs",
        choices=("mlx-lm", NONE),
        help="the peer (default: mlx-lm where it is installed; none with --cache)",
    )
    parser.add_argument(
        "--window",
        action=BooleanOptionalAction,
        help="measure the window too (default: only when neither model nor shape is named)",
    )
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON object")
    parser.add_argument(
        "--progress", action="store_true", help="tell on standard error what is going on, a line each"
    )


def _add_sizes(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--contexts",
        type=_sizes_or_none,
        metavar="N,N",
        help="tokens before those whose speed is measured, or none (default: "
        f"{_listed(MODEL_PLAN.contexts)}; of a shape {_listed(SHAPE_PLAN.contexts)})",
    )
    parser.add_argument(
        "--prompts",
        type=_sizes_or_none,
        metavar="N,N",
        help="prompts whose first token is timed, or none (default: the contexts; "
        f"of a shape {_listed(SHAPE_PLAN.prompts)})",
    )
    parser.add_argument(
        "--batches",
        type=_sizes_or_none,
        metavar="N,N",
        help="sequences to decode at once, or none (default: none; "
        f"of a shape {_listed(SHAPE_PLAN.batches)})",
    )
    parser.add_argument(
        "--cached",
        type=_cached,
        metavar="N,M",
        help="time M new tokens on N cached ones, or none (default: none; "
        f"of a shape {_listed(SHAPE_PLAN.cached or ())})",
    )
    parser.add_argument(
        "--decode",
        type=_at_least_two,
        metavar="N",
        help=f"tokens to write (default: {MODEL_PLAN.decoded}; of a shape {SHAPE_PLAN.decoded})",
    )


def _add_cache(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--cache",
        action="store_true",
        help="measure KV memory, the scheduler and guessing ahead instead (default: of random weights)",
    )
    parser.add_argument(
        "--context",
        type=positive,
        metavar="N",
        help=f"with --cache: tokens of the chat (default: {CACHE_PLAN.context}, or what the model allows)",
    )
    parser.add_argument(
        "--long",
        type=positive,
        metavar="N",
        help=f"with --cache: tokens of the prompt beside a running chat (default: {CACHE_PLAN.long_prompt})",
    )
    parser.add_argument(
        "--only",
        type=_parts,
        metavar="PART,PART",
        help=f"with --cache: measure only these of {', '.join(PARTS)}",
    )


def cache_plan_of(args: Namespace) -> CachePlan:
    """The plan that `args` ask for with --cache.

    Raises UsageError when options contradict each other.
    """
    _check_subject(args)
    for name in ("contexts", "prompts", "cached", "window"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name} is not for --cache; see --context and --only")
    if args.batches is not None and not 1 <= max(args.batches, default=0) <= MOST_ANSWERS:
        raise UsageError(
            f"--batches with --cache takes 1 to {MOST_ANSWERS} answers; leave parts out with --only"
        )
    if args.context is not None and args.context < FEWEST:
        raise UsageError(f"--context {args.context} is too short for what is measured; give {FEWEST} or more")
    return replace(
        CACHE_PLAN,
        context=args.context or CACHE_PLAN.context,
        long_prompt=args.long or CACHE_PLAN.long_prompt,
        pairs=args.pairs or CACHE_PLAN.pairs,
        decoded=args.decode or CACHE_PLAN.decoded,
        batches=args.batches or CACHE_PLAN.batches,
        only=args.only or (),
    )


def plan_of(args: Namespace) -> Plan:
    """The plan that `args` ask for. Raises UsageError when options contradict each other."""
    _check_subject(args)
    for name in ("context", "long", "only"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name} is for --cache")
    base = MODEL_PLAN if args.shape is None else SHAPE_PLAN
    contexts: tuple[int, ...] = base.contexts if args.contexts is None else args.contexts
    prompts = contexts if args.shape is None else base.prompts
    plan = Plan(
        contexts=contexts,
        prompts=prompts if args.prompts is None else args.prompts,
        batches=base.batches if args.batches is None else args.batches,
        cached=base.cached if args.cached is None else args.cached or None,
        pairs=args.pairs or base.pairs,
        decoded=args.decode or base.decoded,
    )
    if plan.batches and not contexts:
        raise UsageError("--contexts none and batches go ill together; say what they decode behind")
    if not (contexts or plan.prompts or plan.cached):
        raise UsageError("there is nothing to measure; give --contexts, --prompts or --cached")
    return plan


def _check_subject(args: Namespace) -> None:
    if args.shape is not None and getattr(args, "model", None) is not None:
        raise UsageError("--shape and --model were both given; a shape is a model of its own")
    if args.shape is None and args.quant is not None:
        raise UsageError("--quant is for a --shape; a --model is measured as it is")


def _parts(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(PARTS)}")
    return names


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(positive(part) for part in text.split(","))


def _sizes_or_none(text: str) -> tuple[int, ...]:
    return () if text == NONE else _sizes(text)


def _cached(text: str) -> tuple[int, ...]:
    sizes = _sizes_or_none(text)
    if len(sizes) not in (0, 2):
        raise ArgumentTypeError(f"{text!r} is not of the form N,M: tokens that are cached, and new ones")
    return sizes


def _at_least_two(text: str) -> int:
    number = positive(text)
    if number < 2:
        raise ArgumentTypeError("a speed needs at least 2 tokens")
    return number


def _listed(sizes: tuple[int, ...]) -> str:
    return ",".join(map(str, sizes))
