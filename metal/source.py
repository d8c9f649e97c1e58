"""A kernel's text: one `.metal` file, its helpers above the line `#pragma body`, its body below."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from metal.dialect import Target, header, spell
from metal.errors import KernelError

KERNELS = Path(__file__).parent
DIVIDER = "#pragma body"

# MLX adds a parameter when a body's text contains an input's name followed by one of these, inside words too.
_SHAPE_WORDS = re.compile(r"\w+_(?:shape|strides|ndim)\b")


@dataclass(frozen=True, slots=True)
class KernelSource:
    """The text of one kernel, with the features it is compiled for (each a `#define`)."""

    name: str
    helpers: str
    body: str
    body_line: int  # where the body begins in its file, from 1
    features: tuple[tuple[str, int], ...] = ()

    @property
    def defines(self) -> str:
        return "".join(f"#define {name} {value}\n" for name, value in self.features)

    def body_for(self, target: Target) -> str:
        """What stands between the braces of the kernel."""
        return spell(self.body, target)

    def header(self, target: Target) -> str:
        """What stands before the kernel: the dialect, the features, the kernel's own helpers."""
        return f'{header(target)}\n{self.defines}#line 1 "{self.name}.metal"\n{spell(self.helpers, target)}\n'

    def digest(self, target: Target) -> str:
        """Twelve hexadecimal digits that change whenever the text that is compiled changes."""
        return hashlib.sha256(f"{self.header(target)}\0{self.body_for(target)}".encode()).hexdigest()[:12]


def load_source(
    name: str, *, folder: Path = KERNELS, features: Mapping[str, int] | None = None
) -> KernelSource:
    """Reads `folder/name.metal`.

    Raises:
        KernelError: the file is missing, or its text says something that MLX would misread.
    """
    path = folder / f"{name}.metal"
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise KernelError(f"kernel {name}: there is no file {path.name} in {folder}") from None
    helpers, divider, body = text.partition(f"{DIVIDER}\n")
    if not divider:
        raise KernelError(f"{path.name}: no line {DIVIDER!r} between the helpers and the body")
    if word := _SHAPE_WORDS.search(body):
        raise KernelError(f"{path.name}: MLX reads {word[0]!r} as a request for an array's shape; rename it")
    return KernelSource(name, helpers, body, helpers.count("\n") + 2, tuple((features or {}).items()))
