"""A process that opens models: a path a line comes in, what came of it goes out as a line of JSON.

Its argument is a sound model, which it opens first: what the libraries take once is no model's doing. From
then on the kernel refuses it more than HEADROOM of further address space, touched or not.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from pathlib import Path

import engine  # noqa: F401  # isort: skip — loads OpenBLAS, which must come before any import of mlx
import mlx.core as mx

from engine.commands import Message
from engine.errors import EngineError, InvalidRequest, NonFiniteLogits
from engine.kv.page_table import PageTable
from engine.loading.model import load_model
from engine.runner import Runner
from engine.settings import EngineSettings
from engine.tokenizer import Tokenizer

HEADROOM = 2 << 30
SETTINGS = EngineSettings(page_size=4, kv_pages=64, executor="reference")
STATUS = Path("/proc/self/status")
LINUX = STATUS.exists()


def answer(path: Path) -> str:
    """Load the model, let it say two tokens to each kind of prompt, and return them. Raises EngineError."""
    model = load_model(path, SETTINGS, lambda done, total: None)
    said = ""
    for ids in prompts(model.tokenizer):
        runner, table, step = Runner(model), PageTable(), ids[-40:]
        for _ in range(2):
            logits = runner.next_logits(table, step)
            if not mx.isfinite(logits).all().item():
                raise NonFiniteLogits(f"{path} gives NaN or infinity")
            step = [int(mx.argmax(logits).item())]
            said += model.tokenizer.decode(step)
        model.memory.free(table)
    return said


def prompts(tokenizer: Tokenizer) -> list[list[int]]:
    """A plain prompt and a chat; a tokenizer that can encode neither raises InvalidRequest."""
    plain = tokenizer.encode("a page holds 16 tökens", add_bos=True)
    try:
        chat = tokenizer.encode_chat([Message("user", "a page"), Message("assistant", "of 16 <s>")])
    except InvalidRequest:  # no template, or one that refuses: plain prompts go on
        chat = plain
    return [ids for ids in (plain, chat) if ids]


def outcome(path: Path) -> dict[str, object]:
    """What came of the model at `path`, how much memory it took at its peak, and how long."""
    before, began = reset_peak(), time.monotonic()
    try:
        kind, text = "answered", answer(path)
    except EngineError as error:
        kind, text = "refused", str(error)
    except BaseException as error:  # noqa: BLE001 — this is what is looked for; Rust's panics are no Exceptions
        kind, text = "raised", f"{type(error).__name__}: {error}"[:2000]
    took = time.monotonic() - began
    return {"kind": kind, "text": text, "grown": peak() - before, "seconds": took}


def reset_peak() -> int:
    """Forget the highest memory so far, where the system can. Bytes resident now."""
    gc.collect()
    mx.clear_cache()
    if LINUX:
        Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    """The most bytes that were resident: since the last reset on Linux, ever elsewhere."""
    if LINUX:
        return status("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def status(field: str) -> int:
    """A line of /proc/self/status, in bytes."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def main() -> None:
    """Open what is asked until the pipe closes."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is not an outcome
    outcome(Path(sys.argv[1]))
    gc.collect()
    gc.freeze()  # what is there now stays: only models are looked through for garbage
    if LINUX:
        most = status("VmSize") + HEADROOM
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(outcome(Path(json.loads(line)))), file=out, flush=True)


if __name__ == "__main__":
    main()
