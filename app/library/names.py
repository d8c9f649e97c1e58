"""Names of models: made from what their files are called, unique whatever the case, fit to be typed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from itertools import count

from app.library.records import LibraryError

LONGEST = 80
_QUANT = re.compile(
    r"[-._](?P<quant>i?q\d[a-z0-9_]*|tq\d_\d|[34568]-?bit|(?:mx|nv)fp\d|bf16|fp?16|fp?32|fp8|int[48])$",
    re.IGNORECASE,
)
"""How GGUF files end ("-Q4_K_M", ".f16") and how repositories in MLX form do ("-4bit")."""

_FORMAT = re.compile(r"[-._](gguf|mlx|safetensors)$", re.IGNORECASE)
_WILD = re.compile(r"[^a-z0-9._]+")
_TYPED = re.compile(r"[^\s/\\~:.\-][^\s/\\]*")
_RESERVED = ("guide",)
_NAMELESS = re.compile(r"(ggml[-._])?model", re.IGNORECASE)
"""What files are called whose folder has the name."""


def file_title(stem: str, folder: str) -> str:
    """What a GGUF file's name is made of: `stem`, or the name of its folder where the stem says nothing."""
    quant = _QUANT.search(stem)
    base = stem[: quant.start()] if quant else stem
    if not _NAMELESS.fullmatch(base):
        return stem
    folder = _FORMAT.sub("", folder)
    return f"{folder}-{quant['quant']}" if quant else folder


def made_name(title: str) -> str:
    """A name from what a file or repository is called.

    "TinyLlama-1.1B-Chat.Q4_K_M" becomes "tinyllama-1.1b-chat:q4_k_m". Another app's name keeps its own tag:
    "llama3.2:1b"; "latest" says nothing and goes.
    """
    base, _, tag = title.partition(":")
    base = _FORMAT.sub("", base)
    if not tag and (quant := _QUANT.search(base)):
        base, tag = _FORMAT.sub("", base[: quant.start()]), quant["quant"]
    tag = "" if tag == "latest" else tag
    parts = [_plain(part) for part in (base, tag)]
    return ":".join(filter(None, [parts[0] or "model", parts[1]]))[:LONGEST]


def _plain(text: str) -> str:
    letters = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return _WILD.sub("-", letters.casefold()).strip("-._")


def unique_name(title: str, publisher: str, revision: str, is_taken: Callable[[str], bool]) -> str:
    """The first name for `title` that is free: plain, with the publisher's, else with a number.

    That of a `revision` which is not the main one ends in its first digits.
    """
    end = f"@{revision[:7]}" if revision else ""
    return next(name for one in _names(title, publisher) if not is_taken(folded(name := one + end)))


def _names(title: str, publisher: str) -> Iterator[str]:
    base, colon, tag = made_name(title).partition(":")
    yield base + colon + tag
    if owner := _plain(publisher):
        yield f"{base}-{owner}{colon}{tag}"
    for number in count(2):
        yield f"{base}-{number}{colon}{tag}"


def folded(name: str) -> str:
    """What two names have in common that differ only in case."""
    return name.strip().casefold()


def checked_name(name: str) -> str:
    """A name that the user chose. Raises LibraryError for one that could not be typed as `--model`."""
    name = name.strip()
    if not name:
        raise LibraryError("the name is empty; give one such as tinyllama:q4")
    if len(name) > LONGEST:
        raise LibraryError(f"{name[:40]}… is too long for a name; {LONGEST} characters are possible")
    if not _TYPED.fullmatch(name) or not name.isprintable():
        raise LibraryError(
            f"{name!r} cannot be a name: blanks, slashes and ~ are not possible in one, and it begins with "
            "a letter or a digit"
        )
    if folded(name) in _RESERVED or folded(name).endswith(".gguf"):
        raise LibraryError(f"{name} cannot be a model's name: it stands for something else; choose another")
    return name


def near_names(name: str, names: list[str]) -> list[str]:
    """Up to three of `names` that `name` may have meant, the likeliest first."""
    wanted = folded(name.rpartition("/")[2])
    by_folded = {folded(one): one for one in names}
    begun = [one for one in by_folded if wanted and one.startswith(wanted)]
    close = get_close_matches(wanted, by_folded, n=3, cutoff=0.5)
    return [by_folded[one] for one in dict.fromkeys([*sorted(begun), *close])][:3]
