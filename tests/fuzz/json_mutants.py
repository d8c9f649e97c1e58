"""JSON files with hostile values in every place, and files that are hardly JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import partial
from typing import cast

from tests.fuzz.mutant import Mutant

PLACE = "\u2603 here"

HOSTILE: tuple[str, ...] = (
    "null",
    "true",
    "-1",
    "0",
    "1",
    "3",
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "1e-320",
    "4.0",
    "2.5",
    "1e18",
    str(2**31),
    str(2**32 - 1),
    str(2**62),
    str(2**63),
    str(2**64),
    "-" + str(2**63),
    "9" * 4200,
    "9" * 10_000,
    '""',
    '"8"',
    '"\\ud800"',
    '"\\u0000"',
    '"\\n\\u001b[2J"',
    '"' + "y" * 20_000 + '"',
    '"../../../../etc/passwd"',
    '"/dev/zero"',
    "[]",
    "{}",
    "[[]]",
    "[null]",
    "[4]",
    '{"x": null}',
    '{"": 1}',
    '{"name": [], "template": {}}',
    '[{"name": {}, "template": "x"}]',
    "[" * 900 + "]" * 900,
    "[" * 100_000 + "]" * 100_000,
    '{"a":' * 100_000 + "1" + "}" * 100_000,
)
"""Raw texts of values. What is deep is deeper than any parser's stack; what is long is no number's length."""

_PLAUSIBLE = frozenset(
    ("null", "true", "0", "1", "3", "4.0", "2.5", "1e-320", "1e18", str(2**31), "[]", "{}", '"\\ud800"')
)
"""What some field may be, and the text that is refused before any field is looked at."""


def fields(file: str, data: bytes, *, named: bool = False) -> Iterator[Mutant]:
    """Each value of the file in turn as each of HOSTILE, gone, and there twice.

    With `named` a refusal of what no field can be must name the top-level field.
    """
    value = json.loads(data)
    for path in _paths(value):
        label = ".".join(map(str, path))
        top = str(path[0]) if named else None
        for hostile in HOSTILE:
            what = f"{label} = {hostile[:40]}"
            sure = top if hostile not in _PLAUSIBLE and len(hostile) < 5000 else None
            yield Mutant("JSON: value", file, partial(_with, value, path, hostile), sure, what)
        yield Mutant("JSON: gone", file, partial(_without, value, path), None, f"no {label}")
        if isinstance(path[-1], str):
            key = json.dumps(path[-1])
            twice = partial(_with, value, path, f'0, {key}: [], {key}: "x"')
            yield Mutant("JSON: twice", file, twice, None, f"{label} three times")


def files(file: str, data: bytes) -> Iterator[Mutant]:
    """The whole file as something else."""
    text = data.decode()
    forms: dict[str, bytes] = {
        "empty": b"",
        "space": b" \n",
        "BOM": b"\xef\xbb\xbf" + data,
        "UTF-16": text.encode("utf-16"),
        "UTF-32": text.encode("utf-32"),
        "Latin-1": b'{"\xe4": 1}',
        "NUL": b"\0" * 64,
        "NUL behind": data + b"\0",
        "twice": data + data,
        "list": b"[" + data + b"]",
        "text": json.dumps(text).encode(),
        "number": b"7",
        "long number": b"9" * 100_000,
        "null": b"null",
        "deep lists": b"[" * 100_000,
        "deep objects": b'{"a":' * 100_000,
        "open": data.rstrip()[:-1],
        "pickle": b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R.",
        "no object": b"<html>429 Too Many Requests</html>",
        "many keys": ("{" + ",".join(f'"k{i}": {i}' for i in range(50_000)) + "}").encode(),
        "same key": ("{" + ",".join('"k": 1' for _ in range(50_000)) + "}").encode(),
        "pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n",
    }
    for what, changed in forms.items():
        yield Mutant("JSON: file", file, changed, what=what)


def at_random(file: str, data: bytes, rng: random.Random) -> Iterator[Mutant]:
    """Several hostile values at once, in places at random; for ever."""
    value = json.loads(data)
    paths = list(_paths(value))
    while True:
        chosen = rng.sample(paths, min(len(paths), rng.randrange(2, 5)))
        changed = value
        marks: dict[str, str] = {}
        for number, path in enumerate(chosen):
            mark = f"{PLACE} {number}"
            changed = _set(changed, path, mark)
            marks[json.dumps(mark)] = rng.choice(HOSTILE)
        raw = json.dumps(changed)
        for mark, hostile in marks.items():
            raw = raw.replace(mark, hostile)
        labels = ", ".join(".".join(map(str, path)) for path in chosen)
        yield Mutant("JSON: several values", file, raw.encode(), None, f"hostile {labels}"[:300])


Path = tuple[str | int, ...]


def _paths(value: object, most: int = 12) -> Iterator[Path]:
    """Where values lie, at most `most` of each list or object: tables of thousands are of one kind."""
    items: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        items = list(cast("dict[str | int, object]", value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast("list[object]", value)))
    if len(items) > 40:
        items = [*items[: most // 2], *items[-most // 2 :]]
    for key, inner in items:
        yield (key,)
        for rest in _paths(inner, most):
            yield (key, *rest)


def _set(value: object, path: Path, new: object) -> object:
    """A copy of `value` with `new` at `path`; as it is where an earlier change took the path away."""
    key, rest = path[0], path[1:]
    if isinstance(value, dict) and key in value:
        table = cast("dict[str | int, object]", value)
        return {**table, key: _set(table[key], rest, new) if rest else new}
    if isinstance(value, list) and isinstance(key, int) and key < len(cast("list[object]", value)):
        items = list(cast("list[object]", value))
        items[key] = _set(items[key], rest, new) if rest else new
        return items
    return value


def _without(value: object, path: Path) -> bytes:
    copy = cast("dict[str | int, object]", json.loads(json.dumps(value)))
    holder = copy
    for step in path[:-1]:
        holder = cast("dict[str | int, object]", holder[step])
    del holder[path[-1]]
    return json.dumps(copy).encode()


def _with(value: object, path: Path, raw: str) -> bytes:
    return json.dumps(_set(value, path, PLACE)).replace(json.dumps(PLACE), raw).encode()
