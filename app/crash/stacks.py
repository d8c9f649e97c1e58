"""The stacks of all threads of this process as text, and a traceback that is fit to be kept."""

from __future__ import annotations

import sys
import threading
import traceback

from app.crash.privacy import without_messages


def told(error: BaseException) -> str:
    """The traceback of `error`, without what its messages may quote."""
    return without_messages("".join(traceback.format_exception(error)))


def threads() -> str:
    """Where each thread is now, the calling one included."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"Thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame)).rstrip()}"
        for ident, frame in sys._current_frames().items()  # pyright: ignore[reportPrivateUsage]
    )
