"""What the Hub's answers say of a model, read with care: every field is a stranger's and may be anything."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from app.hub.choice import RepoFacts
from app.hub.failures import plain
from engine import FAMILIES, GGUF_FAMILIES

FACT_FIELDS = ("config", "gguf", "safetensors", "tags")
"""What `read_facts` reads, in the words of the Hub's `expand`."""


def read_facts(model: Mapping[str, Any]) -> RepoFacts:
    """The facts in one model's entry of the Hub's answers."""
    config, gguf = section(model, "config"), section(model, "gguf")
    quantised = section(config, "quantization_config")
    tags = read_tags(model)
    is_mlx = "mlx" in tags or model.get("library_name") == "mlx"
    method = text(quantised, "quant_method")
    return RepoFacts(
        repo=text(model, "id") or "",
        family=text(config, "model_type") or next((tag for tag in tags if tag in FAMILIES), None),
        gguf_family=text(gguf, "architecture"),
        parameters=whole(gguf, "total"),
        elements=_elements(section(model, "safetensors")),
        bits=whole(quantised, "bits"),
        method=None if is_mlx else method,
    )


def known_family(facts: RepoFacts) -> str | None:
    """The family that it would run as, else the one it says it is of; None where it says nothing."""
    if facts.gguf_family in GGUF_FAMILIES and facts.family not in FAMILIES:
        return facts.gguf_family
    return facts.family or facts.gguf_family


def why_unsupported(facts: RepoFacts) -> str:
    """Why no model of this repository runs, as far as its family tells; "" where one may."""
    family = known_family(facts)
    if family is None or family in FAMILIES:
        return ""
    return f"{family} models do not run here"


def read_tags(model: Mapping[str, Any]) -> tuple[str, ...]:
    """Its tags, as far as they are text."""
    tags = model.get("tags")
    return (
        tuple(tag for tag in cast("list[object]", tags) if isinstance(tag, str))
        if isinstance(tags, list)
        else ()
    )


def read_licence(model: Mapping[str, Any]) -> str:
    """The licence's short name, such as "apache-2.0" or "llama3.2"; "" where none is stated."""
    card = section(model, "cardData")
    named = text(card, "license_name") if text(card, "license") in (None, "other") else None
    tagged = next(
        (tag.removeprefix("license:") for tag in read_tags(model) if tag.startswith("license:")), ""
    )
    return plain(named or text(card, "license") or tagged, 60)


def read_gated(model: Mapping[str, Any]) -> str:
    """ "auto" or "manual" for a gated repository, as access is granted; "" for an open one."""
    gated = model.get("gated")
    return gated if gated in ("auto", "manual") else "manual" if gated is True else ""


def section(entry: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A nested object, empty when it is anything else."""
    value = entry.get(name)
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def text(entry: Mapping[str, Any], name: str) -> str | None:
    """A short text, None when it is anything else."""
    value = entry.get(name)
    return plain(value, 200) or None if isinstance(value, str) else None


def whole(entry: Mapping[str, Any], name: str) -> int | None:
    """A number from 0 on that can be a count, None when it is anything else."""
    value = entry.get(name)
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
    return value if is_count else None


def moment(entry: Mapping[str, Any], name: str) -> datetime | None:
    """A date, None when it is anything else."""
    value = entry.get(name)
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _elements(safetensors: Mapping[str, Any]) -> dict[str, int]:
    counts = section(safetensors, "parameters")
    return {dtype: count for dtype in counts if (count := whole(counts, dtype)) is not None}
