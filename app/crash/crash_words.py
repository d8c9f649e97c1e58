"""Words about crashes and safe mode: in the report, in the window, in the terminal."""

from __future__ import annotations

from app import text

_SIGNALS = {
    "Segmentation fault": "a stray access to memory (SIGSEGV)",
    "Bus error": "an access to memory that is not there (SIGBUS)",
    "Aborted": "a part of it gave up (SIGABRT)",
    "Illegal instruction": "an instruction that this processor does not have (SIGILL)",
    "Floating-point exception": "a calculation that cannot be made (SIGFPE)",
    "Floating point exception": "a calculation that cannot be made (SIGFPE)",
}
_FATAL = "Fatal Python error: "

ENDED_BY_EXCEPTION = "MLXR was ended by a mistake of its own."
FAILED = "A part of MLXR failed; the rest went on."
ENGINE_FAILED = "MLXR’s engine failed, and answers nothing until MLXR is started again."

BANNER = "{what} There is a report; it goes nowhere by itself."
SHOW = "Show report"

TITLE = "Report"
ABOUT = (
    "This is all that there is to share: no chats, no tokens, no name of yours. MLXR sends it nowhere; "
    "copy it into a bug report if you like."
)
COPY = "Copy"
COPIED = "Copied"
REVEAL = "Show in its folder"
DELETE = "Delete"
GONE = "The report is gone."

SAFE_ASKED = "it was asked for (mlxr --safe)"
SAFE_KEY = "a key was held at the start"
SAFE_CRASHES = "MLXR ended unexpectedly {count} times in a row, soon after its start"
SAFE_BANNER = (
    "Safe mode, since {why}: with MLX’s own operations alone and without the disk cache, so perhaps slower."
)
LEAVE = "Leave and restart"
SAFE_EXECUTOR = "safe mode, since {why}"
SAFE_ELSEWHERE = "--safe has no effect on it: end it, and start MLXR again."


def fatal(stacks: str, is_closing: bool) -> str:
    """What a fatal signal was, from the first line of what it left."""
    first = stacks.split("\n", 1)[0]
    name = first.removeprefix(_FATAL).strip() if first.startswith(_FATAL) else ""
    cause = _SIGNALS.get(name, name or "a trap (SIGTRAP)")
    when = " while it was closing; chats were saved before" if is_closing else ""
    return f"MLXR crashed{when}: {cause}."


def killed(has_killed: bool, is_short: bool) -> str:
    """Why a run ended that could say nothing; `has_killed`: the system ended some program meanwhile."""
    if has_killed:
        return (
            "MLXR was ended from outside. The system ended programs for lack of memory while it ran, and "
            "this was probably one of them."
        )
    if is_short:
        return "MLXR was ended from outside while the system was short of memory: probably for that."
    return "MLXR was ended from outside: by somebody (Force Quit, kill -9), or by the system."


def safe_banner(why: str) -> str:
    """What the window says in safe mode."""
    return SAFE_BANNER.format(why=why)


def title(when: str) -> str:
    """A report's headline."""
    return f"{text.APP_NAME}: {when}"
