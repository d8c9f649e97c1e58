"""A process that is a run of the window without the window, and ends in the way that it is told.

`python -m tests.app.crash.ending_child FOLDER HOW`: it says "ready", and does HOW; "wait" waits for signals.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from app.crash.session import MOST_OUTPUT, Session
from app.errors import AppError

SECRET = "my diagnosis is private"
MUTEX_BYTES = 256
"""More than a pthread_mutex_t takes on any system."""


def fail(kind: type[Exception]) -> None:
    """Raise it, with words of a chat in it."""
    raise kind(f"line one\n{SECRET}")


def stuck(session: Session) -> None:
    """Hold the interpreter for good, as a device that does not answer does: no signal ends the wait."""
    session.ask_to_end(lambda: None)  # as with a window: what comes before it is stuck does not end it either
    mutex = ctypes.create_string_buffer(MUTEX_BYTES)
    c = ctypes.PyDLL(None)
    c.pthread_mutex_init(mutex, None)
    c.pthread_mutex_lock(mutex)
    print("stuck", flush=True)
    c.pthread_mutex_lock(mutex)


def much(session: Session) -> None:
    """Print more than is kept, and give up."""
    for _ in range(3):
        os.write(2, b"x" * MOST_OUTPUT)
        session.trim_output()
    os.abort()


WAYS: dict[str, Callable[[Session], object]] = {
    "stray": lambda _: ctypes.string_at(0),
    "abort": lambda _: (os.write(2, b"[METAL] the device is gone"), os.abort()),
    "much": much,
    "bus": lambda _: os.kill(os.getpid(), signal.SIGBUS),
    "illegal": lambda _: os.kill(os.getpid(), signal.SIGILL),
    "trap": lambda _: os.kill(os.getpid(), signal.SIGTRAP),
    "exception": lambda _: fail(ValueError),
    "mistake of the user": lambda _: fail(AppError),
    "wait": lambda _: time.sleep(60),
    "stuck": stuck,
    "quit": lambda _: None,
    "calm abort": lambda session: (session.calm(), os.abort()),
    "closing abort": lambda session: (session.close(), os.abort()),
    "closing kill": lambda session: (session.close(), os.kill(os.getpid(), signal.SIGKILL)),
    "exit without a word": lambda _: os._exit(1),
}

if __name__ == "__main__":
    folder, how = Path(sys.argv[1]), sys.argv[2]
    threading.Thread(target=time.sleep, args=(60,), name="another", daemon=True).start()
    with Session(folder) as session:
        session.note({"asked": "Generate tiny", "at": "now"})
        print("ready", flush=True)
        WAYS[how](session)
