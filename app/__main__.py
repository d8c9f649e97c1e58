"""The entry of `mlxr`: its process, from before anything is loaded to its end."""

from __future__ import annotations

import signal
import sys

MLX = "mlx.core"
"""Not imported here: `mlxr --version` is to be there at once."""


def program() -> int:
    """Run the process `mlxr`, and return its exit code, unless MLX was loaded: then the process ends here.

    Ctrl-C ends it at once until the command runs, which has to clean up: what is being loaded prints a
    traceback of a KeyboardInterrupt, or takes it for a fault of its own and says that it is broken.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from app.command_line import main  # not before: it takes longer to load than Ctrl-C to be pressed

    code = main()
    if MLX in sys.modules:
        _leave(code)
    return code


def _leave(code: int) -> None:
    """Do what Python does at its end, and leave to the system what C++ would take down behind it.

    MLX has threads of its own, and now and then one of them aborts a process that is taken down around it,
    also where the engine has ended (seen with CUDA).
    """
    import atexit
    import contextlib
    import os
    import threading

    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]  # it has no other name
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(program())
