"""A bad start told to a person who may see no terminal; without Qt where that cannot be had."""

from __future__ import annotations

import subprocess
import sys

from app.bad_start import BadStart
from app.display import display_problem

_OSASCRIPT = "/usr/bin/osascript"
# The words are arguments: nothing in them is read as a script. `display alert` is of AppleScript's Standard
# Additions: https://developer.apple.com/library/archive/documentation/AppleScript/Conceptual/AppleScriptLangGuide
_SCRIPT = "on run argv\ndisplay alert (item 1 of argv) message (item 2 of argv) as critical\nend run"


def wants_to_go_on(problem: BadStart) -> bool:
    """Show what is wrong in a window: whether to start in spite of it, or else to look again.

    Raises `problem` where the person quits, or no window can ask.
    """
    if display_problem():
        raise problem
    try:
        from app.bad_start_window import ask_about
    except ImportError:
        _alert(problem)
        raise problem from None
    answer = ask_about(problem)
    if answer == "quit":
        raise problem
    return answer == "go on"


def _alert(problem: BadStart) -> None:
    """On a Mac the system's own alert; elsewhere the line in the terminal has to do."""
    if sys.platform == "darwin":
        command = [_OSASCRIPT, "-e", _SCRIPT, problem.title, problem.words]
        subprocess.run(command, check=False, capture_output=True)
