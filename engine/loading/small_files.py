"""The small files around a model's weights, which strangers wrote: read whole, or one line why not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import cast

from engine.errors import ModelError

MOST_BYTES = 100_000_000
"""Larger files are none of these: an index of 100,000 tensors has 10 million, the largest tokenizer 40."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_bytes(path: Path, kind: type[ModelError] = ModelError) -> bytes:
    """What is in `path`.

    Raises an error of `kind` when it cannot be read or is absurdly large, and FileNotFoundError when there is
    nothing at `path`.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe would keep us waiting, a device never end
            raise kind(f"{path} is no ordinary file; download it again")
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise kind(f"{path} has {size:,} bytes, and no such file has more than {MOST_BYTES:,}")
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise kind(f"{path} cannot be read ({error.strerror}); check the disk and its permissions") from error


def read_object(path: Path, kind: type[ModelError] = ModelError) -> dict[str, object]:
    """The JSON object in `path`.

    Raises as `read_bytes` does, and an error of `kind` when the file is no JSON object, is nested deeper than
    Python can follow, or holds text that is not valid Unicode.
    """
    try:
        text = read_bytes(path, kind).decode("utf-8")
        value: object = json.loads(text)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()  # whole pairs are one character by now
    except UnicodeEncodeError:
        raise kind(f"{path} holds half a surrogate pair in a text; download it again") from None
    except ValueError as error:
        raise kind(f"{path} cannot be read ({error!s:.120}); download it again") from error
    except RecursionError:
        raise kind(f"{path} is nested too deep to be read; download it again") from None
    if not isinstance(value, dict):
        raise kind(f"{path} holds no JSON object; download it again")
    return cast("dict[str, object]", value)
