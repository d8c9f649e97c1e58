"""Memory that runs out while a model is loaded: told as that, not as damage of its files."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import ModelError
from metal.trial_messages import tells_of_memory

_OTHER_WORDS = (
    os.strerror(errno.EAGAIN),  # of C++, where there is none for another thread
    "maximum allowed buffer size",  # of MLX, for a tensor larger than any that a Mac's GPU can have
)


def is_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: what Python, the system, MLX or C++ say then."""
    match error:
        case MemoryError():
            return True
        case OSError():
            return error.errno == errno.ENOMEM
        case RuntimeError():
            text = str(error)
            return tells_of_memory(text) or any(words in text for words in _OTHER_WORDS)
        case _:
            return False


@contextmanager
def enough_memory(path: Path) -> Generator[None]:
    """What is inside loads `path`. Raises ModelError, one line, where memory runs out in it."""
    try:
        yield
    except (MemoryError, OSError, RuntimeError) as error:
        if not is_of_memory(error):
            raise
        raise ModelError(
            f"memory ran out while {path} was loaded; close other programs, or use a smaller model or one "
            "of fewer bits"
        ) from error
