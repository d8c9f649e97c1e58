"""The safetensors models among a repository's files: weights with their configuration and tokenizer."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import PurePosixPath

from app.hub.choice import Choice, RepoFacts, RepoFile, measured_bits, safetensors_parameters, total
from app.hub.quantizations import bits_hint
from engine import FAMILIES

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.safetensors")
_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_CONFIG = "config.json"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model")
"""One of them must be there; see engine/tokenizer/loader.py."""

_BESIDE = (
    _CONFIG,
    _INDEX,
    *_TOKENIZERS,
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.json",
    "*.jinja",
)
"""What is fetched beside the weights; nothing else of a repository is."""

_NO_MODEL = re.compile(r"^(consolidated|adapter)|(^|[-_.])(lora|adapter|optimizer)([-_.]|$)", re.IGNORECASE)
"""Weights that are there twice in another form, or are no whole model."""

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_DTYPE_BITS = {"F32": 32, "BF16": 16, "F16": 16}
_BITS_IN_NAME = re.compile(
    r"(?:^|[-_./])(?:([2-8])[-_]?bits?|(?:mlx-)?q([2-8])|(bf16|fp?16|fp?32))(?=$|[-_./])", re.IGNORECASE
)


def is_pickle(name: str) -> bool:
    """Whether `name` is one of weights in a form that is never opened."""
    return PurePosixPath(name).suffix.lower() in _PICKLED


def safetensors_choices(files: Sequence[RepoFile], facts: RepoFacts) -> Iterable[Choice]:
    """The model at the top of the repository, and those in folders that are called after a quantisation.

    Other folders hold parts of something else, such as the encoders of an image model. The names of
    `files` are safe.
    """
    folders: dict[str, list[RepoFile]] = defaultdict(list)
    for file in files:
        folders[str(PurePosixPath(file.name).parent)].append(file)
    for folder, inside in folders.items():
        weights = _weights(inside)
        if weights and (folder == "." or _BITS_IN_NAME.search(folder)):
            yield _choice("" if folder == "." else folder, inside, weights, facts)


def _weights(inside: Sequence[RepoFile]) -> list[RepoFile]:
    """The weights among the files of one folder, as the engine would choose them."""
    named = {PurePosixPath(file.name).name: file for file in inside}
    found = {
        name: file
        for name, file in sorted(named.items())
        if name.endswith(".safetensors") and not _NO_MODEL.search(name)
    }
    sets: dict[str, list[RepoFile]] = defaultdict(list)
    for name, file in found.items():
        if part := _SHARD.fullmatch(name):
            sets[part["stem"]].append(file)
    if sets and (_SINGLE not in found or _INDEX in named):
        return sets.get("model") or max(sets.values(), key=len)
    if _SINGLE in found:
        return [found[_SINGLE]]
    return [file for name, file in found.items() if name.startswith("model")] or list(found.values())


def _choice(folder: str, inside: Sequence[RepoFile], weights: list[RepoFile], facts: RepoFacts) -> Choice:
    beside = [file for file in inside if any(fnmatch(PurePosixPath(file.name).name, one) for one in _BESIDE)]
    weight_bytes = total(weights)
    key, name, stated = _quantization(folder, facts)
    parameters = None if folder else safetensors_parameters(facts, weight_bytes)
    bits = measured_bits(weight_bytes, parameters, stated)
    return Choice(
        key=key,
        name=name,
        format="safetensors",
        files=(*weights, *sorted(beside, key=lambda file: file.name)),
        bytes=weight_bytes + total(beside),
        weight_bytes=weight_bytes,
        bits=bits,
        parameters=parameters or (round(8 * weight_bytes / bits) if bits and weight_bytes else None),
        types=(),
        hint=bits_hint(bits) if bits else "",
        unsupported=_unsupported(weights, {PurePosixPath(file.name).name for file in beside}, facts),
    )


def _quantization(folder: str, facts: RepoFacts) -> tuple[str, str, float | None]:
    """A key, a name for people, and bits per weight as far as the configuration, or else a name, tells."""
    if not folder and facts.method:
        return facts.method.casefold(), facts.method.upper(), float(facts.bits or 0) or None
    if not folder and facts.bits:
        return _packed(facts.bits)
    found = _BITS_IN_NAME.search(folder or facts.repo)
    if found and (bits := found[1] or found[2]):
        return _packed(int(bits))
    dtypes = {dtype: count for dtype, count in facts.elements.items() if dtype in _DTYPE_BITS}
    if found:
        dtype = {"b": "BF16", "f": "F"}[found[3][0].lower()]
        dtype = dtype if dtype == "BF16" else f"F{found[3][-2:]}"
        return dtype.casefold(), dtype, float(_DTYPE_BITS[dtype])
    if dtypes and not folder:
        dtype = max(dtypes, key=lambda one: dtypes[one])
        return dtype.casefold(), dtype, float(_DTYPE_BITS[dtype])
    return "safetensors", "safetensors", None


def _packed(bits: int) -> tuple[str, str, float]:
    """With a scale and a bias in 16 bits for each 64 weights, as MLX packs them by default."""
    return f"{bits}bit", f"{bits}-bit MLX", bits + 0.5


def _unsupported(weights: list[RepoFile], beside: set[str], facts: RepoFacts) -> str:
    if facts.family is not None and facts.family not in FAMILIES:
        return f"{facts.family!a:.40} models do not run here; {', '.join(FAMILIES)} do"
    if facts.method is not None:
        return f"its weights are quantised with {facts.method!a:.40}; get an MLX or a GGUF version"
    parts = [part for file in weights if (part := _SHARD.fullmatch(file.name))]
    if parts and {int(part["number"]) for part in parts} != set(range(1, int(parts[0]["count"]) + 1)):
        return f"not all {int(parts[0]['count'])} parts of its weights are in the repository"
    if _CONFIG not in beside:
        return "it has no config.json, so nothing tells its shape"
    if beside.isdisjoint(_TOKENIZERS):
        return "it has no tokenizer"
    return ""
