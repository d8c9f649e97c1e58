"""The dialect's headers: what lets one kernel text compile as Metal, CUDA, C++ and OpenCL C++."""

import re
from functools import cache
from pathlib import Path
from typing import Literal

Target = Literal["metal", "cuda", "host", "opencl"]
FOLDER = Path(__file__).parent

_QUALIFIERS = re.compile(r"\b(?:device|constant|threadgroup|thread)\b")
_MATRICES = re.compile(r"^// begin matrices$.*?^// end matrices$\n", re.MULTILINE | re.DOTALL)
_INCLUDE = re.compile(r'^#include "(\w+\.h)"$', re.MULTILINE)


@cache
def header(target: Target, *, with_matrices: bool = True) -> str:
    """The dialect for `target` as one text: MLX's compilers have no include path to this folder.

    `with_matrices` False leaves out what lies between the lines `// begin matrices` and `// end matrices`.
    """

    def inlined(found: re.Match[str]) -> str:
        path = FOLDER / found[1]
        return path.read_text() if path.exists() else found[0]

    text = _INCLUDE.sub(inlined, (FOLDER / f"{target}.h").read_text())
    return text if with_matrices else _MATRICES.sub("", text)


def spell(text: str, target: Target) -> str:
    """A kernel's text for `target`: without Metal's address-space qualifiers where there are no such spaces.

    They cannot be empty macros: CUDA's `__device__` is a macro that expands to an attribute named `device`.
    """
    return _QUALIFIERS.sub("", text) if target in ("cuda", "host") else text
