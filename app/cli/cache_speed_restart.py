"""Coming back after a restart: restored pages beside the disk's own rate, and beside computing them again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.cli.cache_speed_scene import Scene, request
from app.cli.rows import Row
from app.measure.engine_client import Answer, EngineClient
from app.measure.pairs import prompt_tokens
from app.measure.verified_read import ReadRate, read_verified
from engine import ModelInfo, SsdSettings

GROUP = "a chat after a restart (files in the page cache)"
LENGTHS = (2048, 512, 128)
"""Of prompts for which the choice is checked, beside the chat's own."""
WARM_UP = 256
"""Tokens of a prompt computed after each load, so that nobody pays for what happens once."""


@dataclass(frozen=True, slots=True)
class _Return:
    """A prompt asked for again after a restart.

    Attributes:
        restarted: the answer then.
        from_memory: the same once more, from memory.
        cold: what it took at first, with nothing in the cache.
    """

    restarted: Answer
    from_memory: Answer
    cold: Answer

    @property
    def restoring(self) -> float:
        """Seconds that reading pages back took: what the first token waited longer than from memory."""
        return self.restarted.first_token - self.from_memory.first_token


def measure_restart(scene: Scene) -> Iterator[Row]:
    """Rows of the chat after a restart, and of the choice between restoring and computing for each length."""
    plan = scene.plan
    lengths = _lengths(scene)
    raw: list[ReadRate] = []
    returns: list[dict[int, _Return]] = []
    page_bytes = page_size = 1
    for number in range(plan.pairs + 1):
        scene.say(f"restart with {plan.context} tokens: pair {number} of {plan.pairs}")
        folder = scene.scratch / f"restart-{number}"
        info, read, found = _restart(scene, folder, lengths, number)
        page_bytes, page_size = info.page_bytes, info.page_size
        if number:
            raw.append(read)
            returns.append(found)
    yield from _rate_rows(scene, [found[lengths[0]] for found in returns], raw, page_bytes / page_size)
    rate = _best_rate(returns, lengths[0])
    for length in lengths:
        yield from _choice_rows(scene, length, [found[length] for found in returns], rate)


def _lengths(scene: Scene) -> tuple[int, ...]:
    """Whole pages and one token: from memory and from SSD one token is computed. The longest is first."""
    size = scene.settings.page_size
    longest = scene.plan.context // size * size
    return (longest + 1, *(length + 1 for length in LENGTHS if length < longest))


def _restart(
    scene: Scene, folder: Path, lengths: Sequence[int], number: int
) -> tuple[ModelInfo, ReadRate, dict[int, _Return]]:
    ssd = SsdSettings(folder, floor_bytes=0)
    with EngineClient(replace(scene.settings, ssd=ssd)) as client:
        info = client.load(scene.model)
        asked = {length: request(prompt_tokens(length, number), chat=f"chat {length}") for length in lengths}
        client.run(request(prompt_tokens(WARM_UP, number, 2), chat="cold"))
        cold = {length: client.run(asked[length]) for length in lengths}
        client.unload()
        raw = read_verified(folder, ".safetensors")
        client.load(scene.model)
        client.run(request(prompt_tokens(WARM_UP, number, 3), chat="cold"))
        found = {
            length: _Return(client.run(command), client.run(command), cold[length])
            for length, command in asked.items()
        }
    return info, raw, found


def _rate_rows(
    scene: Scene, returns: Sequence[_Return], raw: Sequence[ReadRate], token_bytes: float
) -> Iterator[Row]:
    restored = tuple(float(back.restarted.restored) for back in returns)
    length = len(returns[0].restarted.end.prompt_tokens)
    at = f"{length} tokens"
    yield Row(f"restored of {at}", "", restored, group=GROUP)
    yield Row(f"first token, {at}", "s", tuple(back.restarted.first_token for back in returns), group=GROUP)
    yield Row("read and checked alone", "GB/s", tuple(one.rate / 1e9 for one in raw), group=GROUP)
    rates = [
        back.restarted.restored * token_bytes / back.restoring
        for back in returns
        if back.restarted.restored and back.restoring > 0
    ]
    if len(rates) == len(raw):
        yield Row("restored", "GB/s", tuple(rate / 1e9 for rate in rates), group=GROUP)
        shares = tuple(rate / one.rate for rate, one in zip(rates, raw, strict=True))
        target = scene.targets.get(("restore share", 0))
        yield Row("restored to read and checked alone", "share", shares, target, GROUP)


def _best_rate(returns: Sequence[dict[int, _Return]], longest: int) -> float | None:
    """Tokens per second at which the longest prompt came back; None when it was computed."""
    rates = [
        found[longest].restarted.restored / found[longest].restoring
        for found in returns
        if found[longest].restarted.restored and found[longest].restoring > 0
    ]
    return max(rates, default=None)


def _choice_rows(scene: Scene, length: int, returns: Sequence[_Return], rate: float | None) -> Iterator[Row]:
    chosen = tuple(back.restarted.first_token for back in returns)
    cold = tuple(back.cold.first_token for back in returns)
    yield Row(f"first token after a restart, {length} tokens", "s", chosen, group=GROUP)
    yield Row(f"first token computed, {length} tokens", "s", cold, group=GROUP)
    worse = tuple(_to_better(back, rate) for back in returns)
    target = scene.targets.get(("choice", 0))
    yield Row(f"the choice to the better one, {length} tokens", "x", worse, target, GROUP)


def _to_better(back: _Return, rate: float | None) -> float:
    """What was chosen, in times of the better of restoring and computing.

    Where pages were not restored, restoring them is taken to go at `rate` tokens per second.
    """
    took, computing = back.restarted.first_token, back.cold.first_token
    if back.restarted.restored or rate is None:
        return took / min(took, computing)
    restoring = back.from_memory.first_token + len(back.restarted.end.prompt_tokens) / rate
    return took / min(took, restoring)
