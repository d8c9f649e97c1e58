"""Processes that delete a chat until they kill themselves: `python -m tests.engine.kv.forgetting_child CHAT`.

One process reads a folder and a number of system calls, a line each, and forks a child for each. That removes
CHAT from the cache in the folder and dies just before or after so many system calls. How it ended is written
then: 0 where it came to its end before.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

from tests.engine.kv.spilling_child import die_after
from tests.engine.kv.ssd.chats import forgotten
from tests.engine.kv.ssd.tiers import opened


def main(chat: str) -> None:
    """Fork a child for each line of standard input; the next when that one is dead."""
    # Of Python 3.12 on: its other threads are a library's, and asleep.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            folder, calls = line.rsplit(maxsplit=1)
            tier = opened(Path(folder))
            die_after(int(calls))
            forgotten(tier, chat)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        os.write(1, f"{os.waitstatus_to_exitcode(status)}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1])
