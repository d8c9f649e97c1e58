"""A chat that writes and a long prompt beside it, in an engine whose prompts have processes of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import mlx.core as mx
import pytest

from engine import EngineSettings, Finished, Generate, SamplingParams, TextChunk
from engine.commands import Lane
from engine.cpu import aside_process
from engine.cpu.aside import Aside, AsideChunk
from engine.kv.page_table import PageTable
from tests.engine.mix import samples
from tests.engine.oracle import Checked
from tests.fakes.listener import PATIENCE, Listener, running_engine

GREEDY = SamplingParams(temperature=0)


def asked(name: str, tokens: int, answer: int, lane: Lane = "api") -> Generate:
    ids = tuple(3 + (7 * place + 31 * len(name) + place // 290) % 290 for place in range(tokens))
    return Generate(
        name, tokens=ids, max_tokens=answer, sampling=GREEDY, ignore_eos=True, logprobs=0, lane=lane
    )


CHAT, LONG = asked("chat", 10, 500, "window"), asked("long prompt", 300, 5)


class Slow:
    """Each layer in a process takes longer; which chunks these were of, and what is done when one begins."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        file: Path,
        at_first: Callable[[], object] | None = None,
        *,
        is_stuck: bool = False,
    ) -> None:
        """`at_first`: done when the first chunk has begun. `is_stuck`: that one ends when it is killed."""
        self._file, self._chunks = file, 0
        say, begin = aside_process._Chunk._say, Aside.begin

        def slow(chunk: aside_process._Chunk) -> None:
            with file.open("a") as begun:
                begun.write(f"{chunk._work.begin} ")
            time.sleep(10 * PATIENCE if is_stuck and self._chunks == 1 else 0.03)
            say(chunk)

        def counted(aside: Aside, table: PageTable, ids: mx.array, *, is_last: bool) -> AsideChunk:
            self._chunks += 1
            chunk = begin(aside, table, ids, is_last=is_last)
            if at_first is not None and self._chunks == 1:
                at_first()
            return chunk

        monkeypatch.setattr(aside_process._Chunk, "_say", slow)
        monkeypatch.setattr(Aside, "begin", counted)

    @property
    def begun(self) -> list[int]:
        """The first token of its chunk, for each layer."""
        return [int(begin) for begin in self._file.read_text().split()]


def assert_right(model: Checked, command: Generate, end: Finished) -> None:
    (sample,) = samples(end)
    assert len(sample.tokens) == command.max_tokens
    assert not model.oracle.complaint(command, end.prompt_tokens, sample)


def assert_all_right(model: Checked, listener: Listener, *commands: Generate) -> None:
    """Each of them."""
    for command in commands:
        assert_right(model, command, listener.finished(command.id))


@contextmanager
def beside(checked: Checked, *more: Generate, chunk: int = 48) -> Iterator[Listener]:
    """An engine whose chat writes, and which is then asked for `more`."""
    with running_engine(EngineSettings(prefill_chunk=chunk)) as listener:
        listener.load(checked.folder)
        listener.submit_at(lambda event: isinstance(event, TextChunk) and event.generated_tokens > 5, *more)
        listener.submit(CHAT)
        yield listener
