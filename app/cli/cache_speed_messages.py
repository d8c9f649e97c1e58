"""A chat of messages goes on: rendered by a real template and cut into tokens, as the window's chats are."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from app.cli.cache_speed_scene import REST_S, ROOM, Scene
from app.cli.cache_speed_turns import ANSWER, MESSAGE, MOVES
from app.cli.rows import Row, ratio_row
from app.measure.engine_client import Answer, EngineClient
from app.model_location import model_title
from engine import Generate, History, Message

GROUP = "a chat of messages goes on"
TURNS = 8
"""Questions of the chat, each with its answer: its next turn is one more."""
FILLED = 0.75
"""How much of the context the chat takes: words differ, and it goes on."""
LEAST = 2 * TURNS * ANSWER
"""Tokens that it has at least."""
WORDS = (
    "the a chat page cache token answer model window memory story river mountain garden winter letter "
    "engine number question light paper music small old new quick keeps reads writes finds opens follows "
    "with under"
).split()
_, AGAIN, EDIT, BRANCH = MOVES
_KEPT = {EDIT: TURNS * 3 // 4, BRANCH: TURNS // 2}
"""Turns before the one that reads otherwise."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A chat so far: its messages, and the ids that they were computed as."""

    messages: tuple[Message, ...] = ()
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Move:
    """Seconds to the first token, from memory and cold; tokens that were computed beyond what was new."""

    warm: float
    cold: float
    beyond: int


@dataclass(frozen=True, slots=True)
class _Pair:
    """A chat: tokens of its prompt after all turns; beyond what was new in these; each way to go on."""

    tokens: int
    beyond: int
    moves: dict[str, _Move]


def measure_messages(scene: Scene) -> Iterator[Row]:
    """Rows of the chat's own turns, and of each way to go on; none of a model that has no such chats."""
    pairs: list[_Pair] = []
    title = model_title(scene.text_model)
    with EngineClient(scene.settings) as client:
        info = client.load(scene.text_model)
        most = int((info.context_length - ROOM) * FILLED)
        if not info.has_chat_template or most < LEAST:
            scene.say(f"messages: not measured, as {title} has no chat template or too short a context")
            return
        length = max(LEAST, min(int(scene.plan.context * FILLED), most))
        chats = _Chats(client, info.path, _words_a_turn(client, length))
        for number in range(scene.plan.pairs + 1):
            scene.say(f"a chat of {2 * TURNS} messages: pair {number} of {scene.plan.pairs}")
            pairs += [chats.pair(number)] * (number > 0)
            if not number:
                client.wait_until_warm(REST_S)
    target = scene.targets.get(("recomputed", 0))
    tokens = tuple(float(pair.tokens) for pair in pairs)
    yield Row(f"tokens of {2 * TURNS} messages ({title})", "", tokens, group=GROUP)
    own = tuple(float(pair.beyond) for pair in pairs)
    yield Row("computed beyond what was new, its own turns", "", own, target, GROUP)
    for name in MOVES:
        moves = [pair.moves[name] for pair in pairs]
        beyond = tuple(float(move.beyond) for move in moves)
        yield Row(f"computed beyond what was new, {name}", "", beyond, target, GROUP)
        warm, cold = [move.warm for move in moves], [move.cold for move in moves]
        yield Row(f"first token, {name}", "s", tuple(warm), group=GROUP)
        yield Row(f"first token, cold, as many messages as {name}", "s", tuple(cold), group=GROUP)
        yield ratio_row(f"cold to {name}", cold, warm, None, GROUP)


def _words_a_turn(client: EngineClient, length: int) -> int:
    """Words of a question so that all turns have about `length` tokens, by the model's own tokenizer."""
    few, more = (len(client.run(_asked((_said(1, words),), None)).end.prompt_tokens) for words in (20, 60))
    a_word = (more - few) / 40
    around = few - 20 * a_word
    return max(1, int((length / TURNS - ANSWER - around) / a_word))


class _Chats:
    """Chats with a model, each told turn by turn."""

    def __init__(self, client: EngineClient, model: str, words: int) -> None:
        """`model`: its path; `words`: of a question."""
        self._client, self._model, self._words = client, model, words

    def pair(self, number: int) -> _Pair:
        """A chat of its own for each `number`; nothing of it is kept."""
        known, beyond = [_Known()], 0
        for turn in range(TURNS):
            said, answer = self._turn(known[-1], _said(number, self._words, turn))
            beyond += answer.computed - new_tokens_of(answer, known[-1].tokens, known[-1].tokens)
            known.append(_after(said, answer))
        moves = {name: self._move(name, number, known) for name in MOVES}
        self._client.forget("bench")
        return _Pair(len(known[-1].tokens), beyond, moves)

    def _move(self, name: str, number: int, known: Sequence[_Known]) -> _Move:
        """Regenerated is the next turn, the move before it."""
        kept = known[_KEPT.get(name, TURNS)]
        question = _said(number, MESSAGE, TURNS + (0 if name == AGAIN else MOVES.index(name)))
        said, answer = self._turn(kept, question)
        computed = known[-1].tokens if name != AGAIN else answer.end.prompt_tokens
        beyond = answer.computed - new_tokens_of(answer, kept.tokens, computed)
        cold = self._client.run(_asked(_otherwise(said), None, "cold"))
        self._client.forget("cold")
        return _Move(answer.first_token, cold.first_token, beyond)

    def _turn(self, known: _Known, question: Message) -> tuple[tuple[Message, ...], Answer]:
        messages = (*known.messages, question)
        history = History(known.tokens, len(known.messages), self._model) if known.tokens else None
        return messages, self._client.run(_asked(messages, history))


def new_tokens_of(answer: Answer, kept: tuple[int, ...], computed: tuple[int, ...]) -> int:
    """Tokens of the answer's prompt whose keys and values cannot be there.

    Args:
        kept: the ids of the turns that it goes on with: a prompt that begins otherwise has lost them.
        computed: all ids of the chat, in which more may be the same, as what a template puts before a text.
            The last one was drawn, and nothing was computed behind it.
    """
    prompt = answer.end.prompt_tokens
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(prompt, computed, strict=False)))
    most = min(len(prompt), len(computed)) - 1
    return len(prompt) - max(0, min(max(same, len(kept)), most))


def _asked(messages: tuple[Message, ...], history: History | None, chat: str = "bench") -> Generate:
    return Generate("", messages=messages, history=history, max_tokens=ANSWER, chat=chat)


def _after(messages: tuple[Message, ...], answer: Answer) -> _Known:
    end = answer.end
    return _Known((*messages, Message("assistant", end.text)), (*end.prompt_tokens, *end.tokens))


def _said(number: int, words: int, turn: int = 0) -> Message:
    """A question that no other begins as."""
    draw = random.Random(f"{number} {turn}")
    text = " ".join(draw.choice(WORDS) for _ in range(words))
    return Message("user", f"{number}.{turn} {text}?")


def _otherwise(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """As many words, of which nothing is known: the first ones are others."""
    first, *others = messages
    return (replace(first, content=f"0{first.content}"), *others)
