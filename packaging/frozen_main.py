"""The frozen app's program: `mlxr`, and Python for the modules that MLXR runs in processes of their own.

MLXR starts them as `sys.executable -m NAME`. Frozen, that is this program, which takes the same arguments.
"""

from __future__ import annotations

import os
import runpy
import sys

MODULES = frozenset({
    "app",
    "app.measure.dashboard_rounds",
    "app.measure.decode_ratio",
    "app.measure.first_window",
    "app.measure.stall",
    "metal.trial",
})  # fmt: skip
"""What may be run by name: a test holds them to the modules that are programs."""

TRACKER = ("from multiprocessing.resource_tracker import main;main(", ")")
"""What Python's multiprocessing gives after `-c` to a process that tidies up behind it, around a number."""

LIBRARY_PATH = "LD_LIBRARY_PATH"


def main() -> int:
    """Run `mlxr` with the process's arguments, or after `-m` one of MODULES. Returns the exit code."""
    _restore_library_path()
    arguments = sys.argv[1:]
    if arguments[:1] == ["-P"]:  # Python's: no folder to stand in is on the path, which is so here anyway
        del arguments[0]
    if (pipe := _tracked_pipe(arguments)) is not None:
        from multiprocessing.resource_tracker import main as track

        track(pipe)
        return 0
    if arguments[:1] != ["-m"]:
        from app.__main__ import program

        return program()
    name = arguments[1] if len(arguments) > 1 else ""
    if name not in MODULES:
        print(f"error: {name or 'nothing'} is not a module that MLXR runs by name", file=sys.stderr)
        return 2
    sys.argv = arguments[1:]
    runpy.run_module("app.__main__" if name == "app" else name, run_name="__main__", alter_sys=True)
    return 0


def _tracked_pipe(arguments: list[str]) -> int | None:
    """The pipe that multiprocessing's helper is to read, where this process is started to be that."""
    if arguments[-2:-1] != ["-c"]:
        return None
    before, after = TRACKER
    number = arguments[-1].removeprefix(before).removesuffix(after)
    return int(number) if number.isdigit() and arguments[-1] == f"{before}{number}{after}" else None


def _restore_library_path() -> None:
    """Other programs (a compiler, a browser) get their own libraries: only this process needs the app's."""
    original = os.environ.pop(f"{LIBRARY_PATH}_ORIG", None)
    os.environ.pop(LIBRARY_PATH, None)
    if original:
        os.environ[LIBRARY_PATH] = original


if __name__ == "__main__":
    sys.exit(main())
