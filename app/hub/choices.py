"""What there is to download in a repository: its files gathered into choices, one for each quantisation.

Pure: from the list of files and what the Hub says of the repository (app/hub/details.py reads both) to

    RepoChoices
        choices     every model in it, smallest first, those that do not run too, with the reason
        left_out    lines for people about files that no choice may contain
    Choice
        key         to type behind a colon, "q4_k_m" or "4bit"; unique in the repository
        files       every file to fetch: all parts of a split GGUF; for safetensors the weights, the
                    configuration, the tokenizer and the chat template
        …           name, bytes, bits, hint, unsupported: see app/hub/choice.py

`find_choice` takes what a person typed, `recommend` chooses for a machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from app.hub.choice import Choice, RepoFacts, RepoFile
from app.hub.errors import NoSuchChoice
from app.hub.file_names import refusals
from app.hub.gguf_choices import gguf_choices
from app.hub.safetensors_choices import is_pickle, safetensors_choices

GOOD_BITS = 5.2
"""Bits per weight up to which more of them help most: what is recommended has at most so many."""

GOOD_BITS_SMALL = 8.6
"""The same for small models, which lose more by few bits and are fast enough with more."""

SMALL_PARAMETERS = 2_000_000_000
MOST_OF_MEMORY = 0.7
"""Share of the memory that a recommended model's weights take at most; the rest is for chats."""


@dataclass(frozen=True, slots=True)
class RepoChoices:
    """The choices of a repository, smallest first, and lines about files that are in none."""

    choices: tuple[Choice, ...]
    left_out: tuple[str, ...]


def repo_choices(files: Sequence[RepoFile], facts: RepoFacts | None = None) -> RepoChoices:
    """Every model in a repository's `files`. Names that are not safe on a disk are in no choice."""
    facts = facts or RepoFacts()
    refused = refusals(file.name for file in files)
    wrong_size = {file.name for file in files if file.size is not None and file.size < 0}
    lines = [f"{name!a:.120} {why}" for name, why in refused.items()]
    lines += [f"{name!a:.120} has a size below nothing" for name in sorted(wrong_size)]
    kept = [file for file in files if file.name not in refused and file.name not in wrong_size]
    choices = [*gguf_choices(kept, facts), *safetensors_choices(kept, facts)]
    if not choices and any(is_pickle(file.name) for file in kept):
        lines.append(
            "it has only pickled weights, which can run code when opened: look for safetensors or GGUF"
        )
    ordered = sorted(choices, key=lambda choice: (choice.bytes, choice.name))
    return RepoChoices(tuple(_with_own_keys(ordered)), tuple(lines))


def find_choice(choices: Iterable[Choice], wanted: str) -> Choice:
    """The choice that a person means by `wanted`: its key, its name or one of its files, in any case.

    Raises NoSuchChoice, which names those there are.
    """
    choices = list(choices)
    plain = wanted.strip().casefold()
    for choice in choices:
        names = {choice.key, choice.name, *(file.name for file in choice.files[:1])}
        if plain in {name.casefold() for name in names}:
            return choice
    there = ", ".join(choice.key for choice in choices[:12]) or "none that this app knows"
    raise NoSuchChoice(f"there is no {wanted.strip()!a:.60} in this repository; there is {there}")


def recommend(choices: Iterable[Choice], memory_bytes: int) -> Choice | None:
    """The best choice for a machine with so much memory for models; None when none of them runs and fits.

    The most bits up to a good amount, as long as most of the memory is not taken; where only larger ones
    fit, the smallest of those.
    """
    fitting = [
        choice
        for choice in choices
        if not choice.unsupported and choice.weight_bytes <= MOST_OF_MEMORY * memory_bytes
    ]
    enough = [choice for choice in fitting if (choice.bits or 0) <= _good_bits(choice)]
    if enough:
        return max(enough, key=lambda choice: (choice.bits or 0, choice.format == "safetensors"))
    return min(fitting, key=lambda choice: choice.weight_bytes, default=None)


def _good_bits(choice: Choice) -> float:
    is_small = choice.parameters is not None and choice.parameters < SMALL_PARAMETERS
    return GOOD_BITS_SMALL if is_small else GOOD_BITS


def _with_own_keys(choices: Iterable[Choice]) -> Iterable[Choice]:
    """Those with a twin are called after their first file, which is unique, or after their format."""
    choices = list(choices)
    alike = Counter((choice.format, choice.key) for choice in choices)
    in_gguf = {choice.key for choice in choices if choice.format == "gguf"}
    for choice in choices:
        if alike[choice.format, choice.key] > 1:
            name = choice.files[0].name.rpartition(".")[0]
            yield replace(choice, key=name.casefold(), name=f"{choice.name} · {name}")
        elif choice.format == "safetensors" and choice.key in in_gguf:
            yield replace(choice, key=f"{choice.key}-safetensors")
        else:
            yield choice
