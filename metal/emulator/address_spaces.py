"""Checks what only another compiler can: clang reads a kernel as OpenCL C++, with Metal's address spaces.

It refuses a `device` pointer set from `threadgroup` memory, pointers without an address space, `double` and
local `static`, as Metal does. Recursion, which Metal lacks and clang lets pass, is read from the call graph.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping

from metal.emulator.variant import Variant
from metal.errors import KernelBuildError, KernelError

COMPILERS = ("clang++-14", "clang++")
_FLAGS = (
    "-x", "clcpp", "-cl-std=clc++2021", "-target", "spir64", "-Xclang",
    "-cl-ext=-all,+cl_khr_fp16,-__opencl_c_generic_address_space",
    "-Werror=double-promotion", "-O0", "-S", "-emit-llvm", "-o", "-", "-",
)  # fmt: skip
_DEFINITION = re.compile(r"^define .*?@(\"[^\"]+\"|[\w.$]+)\(.*?\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_CALL = re.compile(r"\bcall\b[^@\n]*@(\"[^\"]+\"|[\w.$]+)\(")


def find_clang() -> str | None:
    """The clang to use, or None: Debian's clang 14 is what this was written with."""
    return next((name for name in COMPILERS if shutil.which(name)), None)


def check_address_spaces(variant: Variant) -> None:
    """Compiles `variant` as OpenCL C++ without running it.

    Raises:
        KernelError: there is no clang.
        KernelBuildError: clang refused the text, with lines of the `.metal` file, or a function calls itself.
    """
    clang = find_clang()
    if clang is None:
        raise KernelError(
            f"the address-space check needs clang ({' or '.join(COMPILERS)}); apt install clang-14"
        )
    done = subprocess.run(
        [clang, *_FLAGS], input=variant.opencl_text(), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise KernelBuildError(f"{variant.source.name}: clang refused it:\n{done.stderr.strip()}")
    calls = {name: _CALL.findall(body) for name, body in _DEFINITION.findall(done.stdout)}
    if name := _recursive(calls):
        plain = subprocess.run(["c++filt", name], capture_output=True, text=True, check=True).stdout.strip()
        raise KernelBuildError(f"{variant.source.name}: {plain} calls itself; Metal has no recursion")


def _recursive(calls: Mapping[str, list[str]]) -> str | None:
    """A function that can reach itself, if there is one."""
    for start in calls:
        seen: set[str] = set()
        pending = list(calls[start])
        while pending:
            name = pending.pop()
            if name == start:
                return start
            if name not in seen:
                seen.add(name)
                pending += calls.get(name, [])
    return None
