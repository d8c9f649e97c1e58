"""The option that names the model; it needs no engine, so that `mlxr doctor` runs where that is broken."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser


def add_model_option(parser: ArgumentParser, otherwise: str = "the last one used, else the guide") -> None:
    """`--model M`; absent from the result when not given, so that `mlxr --model M chat` works too."""
    parser.add_argument(
        "--model",
        metavar="M",
        default=SUPPRESS,
        help="a model's folder, a .gguf file, a Hugging Face repository in the local cache, a name that "
        f'`mlxr models` lists, or "guide"; without it {otherwise}',
    )


def add_draft_option(parser: ArgumentParser) -> None:
    """`--draft-model M`."""
    parser.add_argument(
        "--draft-model",
        metavar="M",
        help="a smaller model of the same vocabulary that guesses ahead; the answer stays the same",
    )
