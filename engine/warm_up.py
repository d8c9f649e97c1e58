"""Steps that nobody waits for: what they launch is compiled when the first request comes."""

from __future__ import annotations

import mlx.core as mx

from engine.kv.memory import KVMemory
from engine.kv.pager import OutOfPages, PageTable
from engine.runner import Runner

_CHUNK = 9  # more than a decode step takes


def warm_up(runner: Runner, memory: KVMemory) -> None:
    """Prefill without and with a history, a decode step and the greedy choice, on pages that are given back.

    Nothing of it is counted. A budget without so many pages is no error.
    """
    table = PageTable()
    try:
        runner.prefill(table, [0] * _CHUNK)
        runner.prefill(table, [0] * _CHUNK)
        logits = runner.next_logits(table, [0])
        mx.eval(logits, runner.pick(logits[None]))
    except OutOfPages:
        pass
    finally:
        memory.free(table)
        runner.launches.clear()
        runner.tokens = 0
