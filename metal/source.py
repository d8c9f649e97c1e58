"""A kernel's text: one `.metal` file, its helpers above the line `#pragma body`, its body below."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from metal.dialect import Target, header, spell
from metal.errors import KernelError

Feature = int | float
"""The value of a `#define`; a float becomes a literal such as 1e-05f."""

KERNELS = Path(__file__).parent
DIVIDER = "#pragma body"

_INCLUDE = re.compile(r'^#include "(\w+\.h)"$')

# MLX adds a parameter when a body's text contains an input's name followed by one of these, inside words too.
_SHAPE_WORDS = re.compile(r"\w+_(?:shape|strides|ndim)\b")


@dataclass(frozen=True, slots=True)
class KernelSource:
    """The text of one kernel, with the features it is compiled for (each a `#define`)."""

    name: str
    helpers: str
    body: str
    body_line: int  # where the body begins in its file, from 1
    features: tuple[tuple[str, Feature], ...] = ()

    @property
    def defines(self) -> str:
        return "".join(f"#define {name} {_literal(value)}\n" for name, value in self.features)

    def body_for(self, target: Target) -> str:
        """What stands between the braces of the kernel."""
        return _for_target(self.body, target)

    def header(self, target: Target) -> str:
        """What stands before the kernel: the dialect, the features, the kernel's own helpers."""
        dialect = header(target, with_matrices="matrix8x8" in self.helpers + self.body)
        helpers = f'#line 1 "{self.name}.metal"\n{self.helpers}\n'
        return f"{_for_target(dialect, target)}\n{self.defines}{_for_target(helpers, target)}"

    def digest(self, target: Target) -> str:
        """Twelve hexadecimal digits that change whenever the text that is compiled changes."""
        return hashlib.sha256(f"{self.header(target)}\0{self.body_for(target)}".encode()).hexdigest()[:12]


def _literal(value: Feature) -> str:
    return f"{value!r}f" if isinstance(value, float) else str(value)


def _for_target(text: str, target: Target) -> str:
    """The text as `target` compiles it; for a GPU without comments and indentation.

    MLX's CUDA back-end hashes the whole text at every launch, at about a microsecond for 5 KB.
    """
    text = spell(text, target)
    if target not in ("cuda", "metal"):
        return text
    lines = (line.split("//")[0].strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#line")) + "\n"


def load_source(
    name: str, *, folder: Path = KERNELS, features: Mapping[str, Feature] | None = None
) -> KernelSource:
    """Reads `folder/name.metal`; a kernel of this project once.

    Raises:
        KernelError: the file is missing, or its text says something that MLX would misread.
    """
    helpers, body, line = _own(name) if folder == KERNELS else _read(folder / f"{name}.metal")
    return KernelSource(name, helpers, body, line, tuple((features or {}).items()))


def kernel_files() -> dict[str, str]:
    """Each `.metal` file of this installation, and the digest of its text for Apple's GPUs.

    Raises KernelError when a text says something that MLX would misread.
    """
    return {path.name: load_source(path.stem).digest("metal") for path in sorted(KERNELS.glob("*.metal"))}


@cache
def _own(name: str) -> tuple[str, str, int]:
    """`_read` of a kernel of this project, for which each layer of a model asks: what it was at first."""
    return _read(KERNELS / f"{name}.metal")


def _read(path: Path) -> tuple[str, str, int]:
    """Helpers, the body, and the line where it begins. Raises KernelError."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise KernelError(f"kernel {path.stem}: there is no file {path.name} in {path.parent}") from None
    helpers, divider, body = text.partition(f"{DIVIDER}\n")
    if not divider:
        raise KernelError(f"{path.name}: no line {DIVIDER!r} between the helpers and the body")
    body_line = helpers.count("\n") + 2
    helpers, body = _inlined(helpers, path, 1), _inlined(body, path, body_line)
    if word := _SHAPE_WORDS.search(body):
        raise KernelError(f"{path.name}: MLX reads {word[0]!r} as a request for an array's shape; rename it")
    return helpers, body, body_line


def _inlined(text: str, path: Path, first_line: int) -> str:
    """Text of a file from `first_line` on, with what it includes: MLX's compilers have no path to there."""
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), start=first_line):
        if found := _INCLUDE.match(line):
            included = (KERNELS / found[1]).read_text()
            lines += [f'#line 1 "{found[1]}"', included, f'#line {number + 1} "{path.name}"']
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"
