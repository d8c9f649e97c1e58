"""A long chat goes on: how many tokens are computed, and how much sooner than cold the first token comes."""

from __future__ import annotations

from collections.abc import Iterator

from app.amounts import counted
from app.cli.cache_speed_scene import REST_S, Scene, new_tokens, request, warm_up_length
from app.cli.rows import Row, ratio_row
from app.measure.engine_client import EngineClient
from app.measure.pairs import prompt_tokens

GROUP = "a chat goes on"
MESSAGE = 28
"""Tokens of a new message."""
ANSWER = 32
"""Tokens of an answer."""
_COLD = 100
"""From this number on: prompts that stand for those of moves, cold."""
MOVES = ("next turn", "regenerate", "edit at 3/4", "branch at 1/2")


def measure_turns(scene: Scene) -> Iterator[Row]:
    """Rows of the cold chat, and of each way to go on with it."""
    plan, targets = scene.plan, scene.targets
    pairs: list[_Pair] = []
    with EngineClient(scene.settings) as client:
        client.load(scene.model)
        for number in range(plan.pairs + 1):
            scene.say(f"a chat of {counted(plan.context, 'token')}: pair {number} of {plan.pairs}")
            if number:
                pairs.append(_Pair(client, plan.context, number))
            else:
                _Pair(client, warm_up_length(plan.context), number)
                client.wait_until_warm(REST_S)
    at = counted(plan.context, "token")
    yield Row(f"first token, cold, {at}", "s", tuple(pair.whole for pair in pairs), group=GROUP)
    for move in MOVES:
        beyond = tuple(float(pair.beyond[move]) for pair in pairs)
        new = pairs[0].new[move]
        name = f"computed beyond {counted(new, 'new token')}, {move}"
        yield Row(name, "", beyond, targets.get(("recomputed", 0)), GROUP)
        warm = tuple(pair.warm[move] for pair in pairs)
        yield Row(f"first token, {move}", "s", warm, group=GROUP)
        target = targets.get(("turn ratio", plan.context))
        cold = tuple(pair.cold[move] for pair in pairs)
        yield Row(f"first token, cold, as many tokens as {move}", "s", cold, group=GROUP)
        yield ratio_row(f"cold to {move}", cold, warm, target, GROUP)


def _message(number: int) -> tuple[int, ...]:
    """A new message; no prompt of ours has its first token, so that none goes on as it does by chance."""
    return (9, *new_tokens(MESSAGE - 1, number))


class _Pair:
    """A cold chat, then each way to go on with it.

    Attributes:
        whole: seconds to the first token of the chat, of which nothing was cached.
        cold: the same of a prompt with as many tokens as that of a move, by move.
        warm: seconds to the first token, by move.
        lengths: tokens of the prompt of a move.
        new: tokens that were never computed for this chat, by move.
        beyond: tokens computed without being new, by move.
    """

    def __init__(self, client: EngineClient, context: int, number: int) -> None:
        self.lengths: dict[str, int] = {}
        self.cold: dict[str, float] = {}
        self.warm: dict[str, float] = {}
        self.new: dict[str, int] = {}
        self.beyond: dict[str, int] = {}
        chat = prompt_tokens(context, number)
        first = client.run(request(chat, ANSWER))
        self.whole = first.first_token
        told = (*chat, *first.end.tokens)
        edited, branched = chat[: context * 3 // 4 - 5], chat[: context // 2 - 5]
        # The last token of an answer was drawn, and nothing was computed behind it.
        self._move(client, MOVES[0], (*told, *_message(number)), len(told) - 1)
        self._move(client, MOVES[1], chat, context - 1)
        for move, kept in ((MOVES[2], edited), (MOVES[3], branched)):
            prompt = (*kept, *_message(number))
            self._move(client, move, prompt, len(kept))
        client.forget("bench")
        for place, move in enumerate(MOVES):
            prompt = prompt_tokens(self.lengths[move], number, _COLD + place)
            self.cold[move] = client.run(request(prompt, chat="cold")).first_token
            client.forget("cold")

    def _move(self, client: EngineClient, move: str, prompt: tuple[int, ...], kept: int) -> None:
        """`kept`: tokens of `prompt` whose keys and values are there already."""
        warm = client.run(request(prompt))
        self.lengths[move] = len(prompt)
        self.warm[move] = warm.first_token
        self.new[move] = len(prompt) - kept
        self.beyond[move] = warm.computed - self.new[move]
