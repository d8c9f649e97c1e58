"""Compiles a variant for the host, once: results are kept on disk under a hash of everything that went in."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

from metal import dialect
from metal.emulator.variant import Variant
from metal.errors import KernelBuildError

FOLDER = Path(__file__).parent


class Mode(Enum):
    """What a build looks for."""

    PLAIN = "plain"  # speed; divergence and misalignment are still refused
    CHECKED = "checked"  # races, strays, reads of unwritten memory; counts bytes
    SANITIZED = "sanitized"  # AddressSanitizer and UBSan, in a process of its own


@dataclass(frozen=True, slots=True)
class _Recipe:
    runtime: tuple[str, ...]  # flags for the emulator's own files
    kernel: tuple[str, ...]  # and for the kernel
    sources: tuple[str, ...]
    link: tuple[str, ...]


# DWARF 4, as g++ 12's DWARF 5 forgets which file a `#line` named.
# A kernel is read with strict warnings: an implicit double is slow on a GPU and absent in Metal. Bodies may
# cast pointers to other element types, hence no strict aliasing. Reports name lines and never a variable's
# place, whose tracking takes as long as the rest of a compilation.
_COMMON = ("-std=c++20", "-O2", "-fPIC", "-gdwarf-4", "-fno-var-tracking", "-fno-var-tracking-assignments",
           "-fno-strict-aliasing", "-fno-exceptions", "-fno-rtti")  # fmt: skip
_KERNEL = (*_COMMON, "-Wall", "-Werror=double-promotion", "-Werror=return-type", "-Wno-unused-variable",
           "-Wno-unknown-pragmas", "-Wno-sign-compare", "-ffp-contract=off")  # fmt: skip
_SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
_HEADERS = (f"-I{dialect.FOLDER}", f"-I{FOLDER}")
_SHARED = ("-shared", "-Wl,-Bsymbolic")
_RECIPES = {
    Mode.PLAIN: _Recipe(_COMMON, _KERNEL, ("emulator.cpp",), _SHARED),
    Mode.CHECKED: _Recipe(
        (*_COMMON, "-DMLXR_CHECKED"),
        (*_KERNEL, "-O1", "-fsanitize=thread"),
        ("emulator.cpp", "checks.cpp"),
        _SHARED,
    ),
    Mode.SANITIZED: _Recipe(
        (*_COMMON, "-DMLXR_ADDRESS_SANITIZER"),
        (*_KERNEL, "-O0", *_SANITIZERS),  # compiled in half the time, and no access is folded away unchecked
        ("emulator.cpp", "main.cpp"),
        _SANITIZERS,
    ),
}


class Builder:
    """Turns variants into shared libraries (or, sanitized, programs) in a cache folder."""

    def __init__(self, cache_folder: Path, compiler: str = "g++") -> None:
        self._cache = cache_folder
        self._compiler = compiler

    def build(self, variant: Variant, mode: Mode) -> Path:
        """The compiled variant, from the cache when its text, the emulator and the compiler are unchanged.

        Raises:
            KernelBuildError: no compiler, or it refused the text; the message names the `.metal` lines.
        """
        recipe, text = _RECIPES[mode], variant.host_text()
        stamp = _digest(self._version(), _own_text(), repr(recipe), text)
        suffix = "" if mode is Mode.SANITIZED else ".so"
        target = self._cache / f"{variant.source.name}-{mode.value}-{stamp}{suffix}"
        if target.exists():
            return target
        parts = [self._runtime(name, recipe) for name in recipe.sources]
        kernel = self._compile(text, f"{variant.source.name}-{stamp}", recipe.kernel)
        try:
            self._produce(target, [*recipe.link, str(kernel), *map(str, parts)])
        finally:
            kernel.unlink()
        return target

    def _runtime(self, name: str, recipe: _Recipe) -> Path:
        stamp = _digest(self._version(), _own_text(), repr(recipe.runtime))
        target = self._cache / f"{Path(name).stem}-{stamp}.o"
        if not target.exists():
            self._produce(target, [*recipe.runtime, f"-I{FOLDER}", "-c", str(FOLDER / name)])
        return target

    def _compile(self, text: str, name: str, flags: tuple[str, ...]) -> Path:
        self._cache.mkdir(parents=True, exist_ok=True)
        source = self._cache / f"{name}-{os.getpid()}.cpp"
        source.write_text(text)
        target = source.with_suffix(".o")
        try:
            self._produce(target, [*flags, f"-I{self._precompiled(flags)}", *_HEADERS, "-c", str(source)])
        finally:
            source.unlink()
        return target

    def _precompiled(self, flags: tuple[str, ...]) -> Path:
        """A folder with the dialect as g++ has read it: C++'s own headers take longer than most kernels.

        g++ takes `host.h.gch` of the first folder that has one, and reads `host.h` where it does not fit.
        """
        folder = self._cache / f"host-{_digest(self._version(), _own_text(), repr(flags))}"
        target = folder / "host.h.gch"
        if not target.exists():
            folder.mkdir(parents=True, exist_ok=True)
            self._produce(target, [*flags, *_HEADERS, "-x", "c++-header", str(dialect.FOLDER / "host.h")])
        return folder

    def _produce(self, target: Path, arguments: list[str]) -> None:
        """Runs the compiler into a file that takes its name only when complete: others may build the same."""
        self._cache.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=self._cache, suffix=target.suffix)
        os.close(handle)
        done = subprocess.run(
            [self._compiler, *arguments, "-o", part], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            Path(part).unlink()
            raise KernelBuildError(f"{target.name}: {self._compiler} refused it:\n{done.stderr.strip()}")
        Path(part).replace(target)

    def _version(self) -> str:
        return _compiler_version(self._compiler)


@cache
def _compiler_version(compiler: str) -> str:
    if shutil.which(compiler) is None:
        raise KernelBuildError(f"the kernel emulator needs {compiler}: install it (Debian: apt install g++)")
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout


@cache
def _own_text() -> str:
    files = [*sorted(dialect.FOLDER.glob("*.h")), *sorted(FOLDER.glob("*.h")), *sorted(FOLDER.glob("*.cpp"))]
    return _digest(*(path.read_text() for path in files))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
