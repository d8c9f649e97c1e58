"""A running chat while a long prompt is computed beside it: how much each of them is held up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from app.amounts import counted
from app.cli.cache_speed_scene import REST_S, Scene, request
from app.cli.rows import Row, ratio_row
from app.errors import AppError
from app.measure.engine_client import EngineClient, Mark
from app.measure.pairs import prompt_tokens
from engine import Generate, SamplingParams

GROUP = "a chat beside a long prompt"
CHAT = 64
"""Tokens of the chat's prompt."""
FEWEST_ALONE, MOST_ALONE = 100, 500
"""Tokens that the chat writes alone, before the prompt comes and after it: of a hundred gaps the longest
percent is one, whatever that one waited for. Fewer where the prompt is short, and the chat beside it too."""
PAIRS_A_RUN = 3
"""The prompt is long, and each run holds hundreds of gaps."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Gaps between tokens in seconds, and the prompt's tokens per second, alone and beside each other.

    Attributes:
        gaps_before, gaps_after: of the chat alone, shorter and longer than it is beside the prompt.
    """

    gaps_before: tuple[float, ...]
    gaps_after: tuple[float, ...]
    gaps_beside: tuple[float, ...]
    rate_alone: float
    rate_beside: float

    def alone(self, share: float) -> float:
        """The quantile of the chat's gaps alone, when it is as long as beside the prompt: between the two."""
        return (quantile(self.gaps_before, share) + quantile(self.gaps_after, share)) / 2


def measure_beside(scene: Scene) -> Iterator[Row]:
    """Rows of the gaps between the chat's tokens, and of the prompt's speed."""
    length = scene.plan.long_prompt
    prompt = f"prompt of {counted(length, 'token')}"
    with EngineClient(scene.settings) as client:
        client.load(scene.model)
        _once(client, min(length, 4 * CHAT), 0)
        client.wait_until_warm(REST_S)
        runs: list[_Run] = []
        count = max(1, scene.plan.pairs // PAIRS_A_RUN)
        for number in range(1, count + 1):
            scene.say(f"a chat beside a {prompt}: {number} of {count}")
            runs.append(_once(client, length, number))
    for share in (50, 99):
        yield from _gap_rows(scene, runs, share)
    alone, beside = [run.rate_alone for run in runs], [run.rate_beside for run in runs]
    yield Row(f"{prompt}, alone", "tok/s", tuple(alone), group=GROUP)
    yield Row(f"{prompt}, beside the chat", "tok/s", tuple(beside), group=GROUP)
    target = scene.targets.get(("rate beside", 0))
    yield ratio_row("prompt's speed, beside to alone", beside, alone, target, GROUP)


def _gap_rows(scene: Scene, runs: Sequence[_Run], share: int) -> Iterator[Row]:
    alone = [1000 * run.alone(share / 100) for run in runs]
    beside = [1000 * quantile(run.gaps_beside, share / 100) for run in runs]
    yield Row(f"gap between tokens, p{share}, alone", "ms", tuple(alone), group=GROUP)
    yield Row(f"gap between tokens, p{share}, beside", "ms", tuple(beside), group=GROUP)
    target = scene.targets.get(("gap ratio", share))
    yield ratio_row(f"gap p{share}, beside to alone", beside, alone, target, GROUP)


def _once(client: EngineClient, length: int, number: int) -> _Run:
    # Made before the chat begins: to make so many tokens holds Python's lock for as long as some gaps are.
    first, asked, last = (request(prompt_tokens(length, number, seed), chat="") for seed in (1, 2, 4))
    alone, tokens = [client.run(first)], max(FEWEST_ALONE, min(length // 16, MOST_ALONE))
    chat = client.send(_chat(number))
    client.wait_for_tokens(chat, tokens)
    beside = client.run(asked)
    written = chat.marks[-1].tokens if chat.marks else 0
    client.wait_for_tokens(chat, written + tokens)
    client.cancel(chat)
    # Before and behind: a machine whose speed changes meanwhile would be taken for the chat's doing.
    alone.append(client.run(last))
    before = [mark for mark in chat.marks if mark.at <= beside.sent]
    after = [mark for mark in chat.marks if mark.at >= beside.ended]
    during = [mark for mark in chat.marks if beside.sent < mark.at < beside.ended]
    found = gaps(before), gaps(after), gaps([*before[-1:], *during, *after[:1]])
    if not all(found):
        raise AppError(
            "the chat wrote no text beside the long prompt; give another --model, or a longer --long"
        )
    return _Run(
        *found,
        len(alone) * length / sum(each.first_token for each in alone),
        length / beside.first_token,
    )


def _chat(number: int) -> Generate:
    """Drawn, not greedy: a greedy answer of random weights may repeat a token that has no text."""
    sampling = SamplingParams(temperature=1.0, seed=number)
    asked = request(prompt_tokens(CHAT, number, 3), chat="")
    return replace(asked, max_tokens=None, sampling=sampling, lane="window")


def gaps(marks: Sequence[Mark]) -> tuple[float, ...]:
    """Seconds between tokens; text that came for several at once counts for each of them.

    An answer's last piece may be of no token more: text that was held back until its end.
    """
    found: list[float] = []
    for one, next_one in pairwise(marks):
        if tokens := next_one.tokens - one.tokens:
            found += [(next_one.at - one.at) / tokens] * tokens
    return tuple(found)


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of them do not exceed."""
    return sorted(values)[max(1, math.ceil(round(share * len(values), 6))) - 1]
