"""Opening a model where nothing it does can hurt: in a child process with limits on time and memory."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PATIENCE_S = 30.0
"""A model that takes longer hangs: these take milliseconds, and a template may run for two seconds."""
START_S = 120.0
ALLOWED_BYTES = 64 << 20
"""Memory that opening any of these models may take; the backtrace of a first panic in Rust takes 48 MiB."""
ALLOWED_TIMES = 8
"""And for each byte of its files so many."""
LONGEST = 400

Kind = Literal["answered", "refused", "raised", "died", "hung"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a model: the answer, the refusal's line, or how it went wrong.

    Attributes:
        grown: bytes of memory that it took at its peak.
    """

    kind: Kind
    text: str
    grown: int = 0
    seconds: float = 0.0

    def complaint(
        self, folder: Path, file: str | None = None, field: str | None = None, allowed: int = ALLOWED_BYTES
    ) -> str:
        """What is wrong with it; "" for an answer, and for one clear line.

        Args:
            folder: the model's.
            file: that the line must name; None: any of the model's, or the folder.
            field: that it must name too.
            allowed: bytes of memory beside those that its files' sizes justify.
        """
        if self.kind not in ("answered", "refused"):
            return f"{self.kind}: {self.text}"
        honest = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
        if self.grown > allowed + ALLOWED_TIMES * honest:
            return f"took {self.grown >> 20} MiB for files of {honest >> 10} KiB: {self.text}"
        if self.kind == "answered":
            return ""
        if not self.text.isprintable():  # line ends, what steers terminals, halves of surrogate pairs
            return f"not one printable line: {self.text!r}"
        if len(self.text.replace(str(folder), "")) > LONGEST:
            return f"{len(self.text)} characters: {self.text}"
        names = [file] if file else [str(folder), "config.json", *(one.name for one in folder.iterdir())]
        if not any(name in self.text for name in names):
            return f"names no file: {self.text}"
        return "" if field is None or field in self.text else f"does not name {field}: {self.text}"


class Opener:
    """A child that opens one model after the other; started anew when one was its last."""

    def __init__(self, sound: Path, errors: Path) -> None:
        """`sound`: a model that opens; `errors`: a file for what the child says to standard error."""
        self._sound = sound
        self._errors = errors  # no pipe: unread, it fills up and blocks
        self._child: subprocess.Popen[str] | None = None

    def open(self, path: Path) -> Outcome:
        """Load the model at `path` and let it answer."""
        child = self._child = self._child or self._start()
        assert child.stdin is not None
        child.stdin.write(json.dumps(str(path)) + "\n")
        child.stdin.flush()
        line = self._line(child, PATIENCE_S)
        if line:
            return Outcome(**json.loads(line))
        hung = line is None
        errors = self.close()
        if hung:
            return Outcome("hung", f"no outcome in {PATIENCE_S:.0f} s", seconds=PATIENCE_S)
        return Outcome("died", f"exit status {child.returncode}: {errors[-2000:]}")

    def close(self) -> str:
        """End the child. What it wrote to standard error."""
        child, self._child = self._child, None
        if child is None:
            return ""
        child.kill()
        child.communicate()
        return self._errors.read_text(errors="replace")

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.fuzz.opener_child", str(self._sound)]
        pipe = subprocess.PIPE
        with self._errors.open("w") as errors:
            child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, encoding="utf-8")
        if self._line(child, START_S) != "ready\n":
            self._child = child
            raise RuntimeError(f"the child did not start: {self.close()}")
        return child

    @staticmethod
    def _line(child: subprocess.Popen[str], patience_s: float) -> str | None:
        """The child's next line; "" when it is gone, None when it says nothing for so long."""
        assert child.stdout is not None
        heard, _, _ = select.select([child.stdout], [], [], patience_s)
        return child.stdout.readline() if heard else None
