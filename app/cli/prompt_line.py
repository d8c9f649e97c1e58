"""How a person types a message in the terminal: line editing with history, and lines that go on."""

from __future__ import annotations

import sys
from contextlib import suppress

PROMPT, MORE = "> ", ". "
HISTORY = 1000


class PromptLine:
    """Reads messages from a terminal. The history lasts as long as the chat: it is not written to disk."""

    def __init__(self, shows_prompt: bool) -> None:
        self._shows_prompt = shows_prompt
        with suppress(ImportError):  # importing it gives input() its editing; not every Python has it
            import readline

            readline.set_history_length(HISTORY)

    def read(self) -> str | None:
        """The next message, or None when the person leaves with Ctrl-D or Ctrl-C."""
        lines: list[str] = []
        try:
            while True:
                line = self._line(MORE if lines else PROMPT)
                if not line.endswith("\\"):
                    return "\n".join([*lines, line])
                lines.append(line[:-1])
        except (EOFError, KeyboardInterrupt):
            if self._shows_prompt:
                sys.stderr.write("\n")
            return None

    def _line(self, prompt: str) -> str:
        if sys.stdout.isatty():
            return input(prompt)
        if self._shows_prompt:  # standard output holds answers only
            sys.stderr.write(prompt)
            sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")
