"""Coming back after a restart: restored pages beside the disk's own rate, and beside computing them again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.amounts import counted
from app.cli.cache_speed_scene import Scene, request, warm_up_length
from app.cli.rows import Row, ratio_row
from app.measure.engine_client import Answer, EngineClient
from app.measure.pairs import prompt_tokens
from app.measure.verified_read import (
    ReadRate,
    can_leave_page_cache,
    leave_page_cache,
    read_verified,
    take_memory,
)
from engine import Generate, ModelInfo, SsdSettings

GROUP = "a chat after a restart"
SUFFIX = ".safetensors"
WARM, DISK = "from the page cache", "from the disk"
"""Where the system takes the files from: what it kept of them in memory, or the disk itself."""
EXPECTED = "asked about before"
"""The chat was asked about, as the window does while one types: it comes back before it is sent."""
TYPING = 0.3
"""Seconds from that to sending it."""
LENGTHS = (2048, 512, 128)
"""Of prompts for which the choice is checked, beside the chat's own."""
WARM_UP = 256
"""Tokens of a prompt computed after each load, so that nobody pays for what happens once."""


@dataclass(frozen=True, slots=True)
class _Return:
    """A prompt asked for again after a restart.

    Attributes:
        restarted: the answer then.
        from_memory: the same from memory, the middle one of three by the time to its first token.
    """

    restarted: Answer
    from_memory: Answer

    @property
    def restoring(self) -> float:
        """Seconds that reading pages back took: what the first token waited longer than from memory."""
        return self.restarted.first_token - self.from_memory.first_token

    @property
    def rate(self) -> float | None:
        """Tokens read back a second; None when none were."""
        if not self.restarted.restored or self.restoring <= 0:
            return None
        return self.restarted.restored / self.restoring


@dataclass(frozen=True, slots=True)
class _Choice:
    """A prompt after three restarts, its files in the page cache.

    Attributes:
        chosen: as the engine went about it by itself.
        restored, computed: seconds to the first token where it was told to.
    """

    chosen: Answer
    restored: float
    computed: float

    @property
    def to_better(self) -> float:
        """What the way that was chosen takes, in times of the better one."""
        took = self.restored if self.chosen.restored else self.computed
        return took / min(self.restored, self.computed)


@dataclass(frozen=True, slots=True)
class _Pair:
    """One pair: rates of reading and checking alone by the kind of return, and all that came back.

    Attributes:
        choices: by length.
        chats: the chat, the longest of these, by the kind of its return; EXPECTED goes as the engine wants.
    """

    model: ModelInfo
    raw: dict[str, ReadRate]
    choices: dict[int, _Choice]
    chats: dict[str, _Return]


def measure_restart(scene: Scene) -> Iterator[Row]:
    """Rows of the chat after a restart, and of the choice between restoring and computing for each length."""
    plan, pairs = scene.plan, list[_Pair]()
    for number in range(plan.pairs + 1):
        scene.say(f"restart with {counted(plan.context, 'token')}: pair {number} of {plan.pairs}")
        pairs.append(_restart(scene, scene.scratch / f"restart-{number}", number))
    pairs = pairs[1:]
    for source in pairs[0].raw:
        is_promised = source == DISK or DISK not in pairs[0].raw
        yield from _rate_rows(scene, source, pairs, is_promised=is_promised)
    yield from _expected_rows([pair.chats[EXPECTED] for pair in pairs])
    for length in _lengths(scene, plan.context):
        yield from _choice_rows(scene, length, [pair.choices[length] for pair in pairs])


def _lengths(scene: Scene, longest: int) -> tuple[int, ...]:
    """Whole pages and one token: from memory and from SSD one token is computed. The longest is first."""
    size = scene.settings.page_size
    longest -= longest % size
    return (longest + 1, *(length + 1 for length in LENGTHS if length < longest))


def _restart(scene: Scene, folder: Path, number: int) -> _Pair:
    ssd = SsdSettings(folder, floor_bytes=0)
    longest = scene.plan.context
    lengths = _lengths(scene, longest if number else warm_up_length(longest))
    asked = {length: request(prompt_tokens(length, number), chat=f"chat {length}") for length in lengths}
    chat, chats, raw = asked[lengths[0]], dict[str, _Return](), dict[str, ReadRate]()
    with EngineClient(replace(scene.settings, ssd=ssd)) as client:

        def all_of(*, restores: bool | None) -> dict[int, Answer]:
            return {
                length: client.run(replace(command, restores=restores)) for length, command in asked.items()
            }

        info = client.load(scene.model)
        _warm_up(client)
        all_of(restores=None)
        _restarted(scene, client, folder, WARM, chat)
        chosen = all_of(restores=None)
        _restarted(scene, client, folder, WARM, chat)
        computed = all_of(restores=False)
        raw[WARM] = _restarted(scene, client, folder, WARM, chat)
        restored = all_of(restores=True)
        chats[WARM] = _Return(restored[lengths[0]], _from_memory(client, chat))
        if can_leave_page_cache():
            raw[DISK] = _restarted(scene, client, folder, DISK, chat)
            back = client.run(replace(chat, restores=True))
            chats[DISK] = _Return(back, _from_memory(client, chat))
        _restarted(scene, client, folder, EXPECTED, chat)
        chats[EXPECTED] = _Return(client.run(chat), _from_memory(client, chat))
    choices = {
        length: _Choice(chosen[length], restored[length].first_token, computed[length].first_token)
        for length in lengths
    }
    return _Pair(info, raw, choices, chats)


def _from_memory(client: EngineClient, command: Generate) -> Answer:
    return sorted((client.run(command) for _ in range(3)), key=lambda answer: answer.first_token)[1]


def _restarted(scene: Scene, client: EngineClient, folder: Path, source: str, chat: Generate) -> ReadRate:
    """Unload and load the model, its files then being where `source` says; what reading them alone takes."""
    client.unload()
    if source == DISK:
        leave_page_cache(folder, SUFFIX)
    take_memory(folder, SUFFIX)
    rate = read_verified(folder, SUFFIX)
    if source == DISK:
        leave_page_cache(folder, SUFFIX)
    client.load(scene.model)
    _warm_up(client)
    if source == EXPECTED:
        client.predict(chat)
        time.sleep(TYPING)
    take_memory(folder, SUFFIX)
    return rate


def _warm_up(client: EngineClient) -> None:
    client.run(request(prompt_tokens(WARM_UP, 0, 2), chat="cold"))


def _rate_rows(scene: Scene, source: str, pairs: Sequence[_Pair], *, is_promised: bool) -> Iterator[Row]:
    """Promised is a share of the disk's rate; the page cache's stands for it where it cannot be left."""
    chats, raw = [pair.chats[source] for pair in pairs], [pair.raw[source].rate for pair in pairs]
    token_bytes = pairs[0].model.page_bytes / pairs[0].model.page_size
    at = f"{counted(len(chats[0].restarted.end.prompt_tokens), 'token')}, {source}"
    restored = tuple(float(chat.restarted.restored) for chat in chats)
    yield Row(f"restored of {at}", "", restored, group=GROUP)
    yield Row(f"first token, {at}", "s", tuple(chat.restarted.first_token for chat in chats), group=GROUP)
    yield Row(f"read and checked alone, {source}", "GB/s", tuple(rate / 1e9 for rate in raw), group=GROUP)
    rates = [chat.rate * token_bytes for chat in chats if chat.rate is not None]
    if len(rates) == len(raw):
        yield Row(f"restored, {source}", "GB/s", tuple(rate / 1e9 for rate in rates), group=GROUP)
        shares = tuple(rate / alone for rate, alone in zip(rates, raw, strict=True))
        target = scene.targets.get(("restore share", 0)) if is_promised else None
        yield Row(f"restored to read and checked alone, {source}", "share", shares, target, GROUP)


def _expected_rows(chats: Sequence[_Return]) -> Iterator[Row]:
    """What was asked about before should be in memory, and take as long as from there."""
    at = f"{counted(len(chats[0].restarted.end.prompt_tokens), 'token')}, {EXPECTED}"
    cached = tuple(float(chat.restarted.cached) for chat in chats)
    yield Row(f"in memory of {at}", "", cached, group=GROUP)
    first = [chat.restarted.first_token for chat in chats]
    yield Row(f"first token, {at}", "s", tuple(first), group=GROUP)
    memory = [chat.from_memory.first_token for chat in chats]
    yield ratio_row(f"first token to one from memory, {EXPECTED}", first, memory, None, GROUP)


def _choice_rows(scene: Scene, length: int, choices: Sequence[_Choice]) -> Iterator[Row]:
    at = f"{counted(length, 'token')} after a restart"
    chosen = tuple(choice.chosen.first_token for choice in choices)
    yield Row(f"first token, {at}", "s", chosen, group=GROUP)
    yield Row(f"first token, {at}, restored", "s", tuple(each.restored for each in choices), group=GROUP)
    yield Row(f"first token, {at}, computed", "s", tuple(each.computed for each in choices), group=GROUP)
    target = scene.targets.get(("choice", 0))
    to_better = tuple(choice.to_better for choice in choices)
    yield Row(f"the choice to the better one, {counted(length, 'token')}", "x", to_better, target, GROUP)
