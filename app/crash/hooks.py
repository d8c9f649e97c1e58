"""Exceptions that nobody caught, of every thread and of Qt's slots: each is logged and told."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from types import TracebackType

log = logging.getLogger(__name__)

ENGINE_THREAD = "mlxr-engine"
OnFailure = Callable[[BaseException, str], None]


class Hooks:
    """Python's three hooks, from `install` to `remove`."""

    def __init__(self, on_failure: OnFailure) -> None:
        """`on_failure(error, name of its thread)` is called on that thread."""
        self._on_failure = on_failure
        self._before = sys.excepthook, threading.excepthook, sys.unraisablehook

    def install(self) -> None:
        """From now on. Qt calls sys.excepthook for what a slot raises, and goes on."""
        sys.excepthook = self._uncaught
        threading.excepthook = self._uncaught_in_thread
        sys.unraisablehook = self._unraisable

    def remove(self) -> None:
        """As it was before."""
        sys.excepthook, threading.excepthook, sys.unraisablehook = self._before

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        log.error("not caught", exc_info=(kind, error, trace))
        sys.__excepthook__(kind, error, trace)
        self._tell(error, threading.current_thread().name)

    def _uncaught_in_thread(self, args: threading.ExceptHookArgs) -> None:
        error = args.exc_value
        if error is None or isinstance(error, SystemExit):
            return
        name = args.thread.name if args.thread else ""
        log.error("%s ended", name, exc_info=error)
        self._before[1](args)
        self._tell(error, name)

    def _unraisable(self, args: sys.UnraisableHookArgs) -> None:
        """What is raised where nobody can catch it, as in a destructor: nothing is lost by it."""
        log.error("%s", args.err_msg or "not caught", exc_info=args.exc_value)
        self._before[2](args)

    def _tell(self, error: BaseException, thread: str) -> None:
        if not isinstance(error, KeyboardInterrupt | SystemExit):
            self._on_failure(error, thread)
