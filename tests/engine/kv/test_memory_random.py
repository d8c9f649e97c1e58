"""KV memory under random use: whatever is shared, evicted or lost, each sequence sees its own tokens."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.kv import restoring
from tests.engine.kv.memory_world import Running, Shape, World

CHATS = ("", "a", "b", "c")
MOST_RUNNING = 4
MOST_TOKENS = 40

Action = str
ACTIONS: dict[Action, int] = {
    "begin": 24,
    "compute": 30,
    "keep": 8,
    "free": 14,
    "finish": 20,
    "fork": 4,
    "restore": 4,
    "trim": 6,
    "cancel": 6,
    "append": 12,
    "spill": 2,
    "evict all": 1,
    "forget": 2,
    "let go": 3,
    "share": 3,
    "pin": 2,
    "unpin": 3,
    "lose": 2,
    "damage": 2,
    "fill": 1,
    "drop": 1,
}
"""What a user, a scheduler and a disk do, and how often."""

OF_RUNNING = {"compute", "keep", "free", "finish", "fork", "restore", "trim", "cancel", "append"}
WEIGHTED = [action for action, weight in ACTIONS.items() for _ in range(weight)]
WORLD_OPERATIONS = 2_000


@pytest.fixture(autouse=True)
def one_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that others have their turn between two reads for one prompt."""
    monkeypatch.setattr(restoring, "BYTES_AT_ONCE", 0)
    monkeypatch.setattr(restoring, "RUNS_AT_ONCE", 1)


class Player:
    """Plays actions on a world, with choices from `pick`, which yields integers below its argument."""

    def __init__(self, world: World, random_: random.Random) -> None:
        self.world = world
        self.random = random_
        self.prompts: list[list[int]] = [[0]]
        self.played: Counter[str] = Counter()

    def play(self, action: Action) -> None:
        world = self.world
        if action in ("begin", "fork") and len(world.running) == MOST_RUNNING:
            action = "finish"
        elif action in OF_RUNNING and not world.running:
            action = "begin"
        self.played[action] += 1
        match action:
            case "begin":
                running = world.begin(self.prompt(), self.random.choice(CHATS))
                while self.random.random() < 0.7 and world.restore(
                    running, is_alone=self.random.random() < 0.5
                ):
                    self.played["restored run"] += 1
            case "spill":
                world.memory.spill(self.random.choice((None, 1, 3)))
            case "evict all":
                with world.keeps_pins():
                    world.memory.evict_all()
            case "forget":
                self.forget(self.random.choice(CHATS[1:]))
            case "let go":
                kept, *others = self.random.choices(self.prompts, k=3)
                world.let_go(self.random.choice(CHATS), others, kept)
            case "share":
                world.share(self.random.choice(self.prompts), self.random.choice(CHATS[1:]))
            case "pin" | "unpin":
                world.pin(self.random.choice(CHATS[1:]), action == "pin")
            case "lose" | "damage" | "fill":
                self.harm_tier(action)
            case "drop":
                world.drop()
            case _:
                self.act(action, self.random.choice(world.running))

    def act(self, action: Action, running: Running) -> None:
        world = self.world
        match action:
            case "compute":
                world.compute(running, self.random.randint(1, 9))
            case "keep":
                world.keep(running, whole=self.random.random() < 0.5)
            case "finish":
                if world.compute(running, MOST_TOKENS):
                    world.keep(running)
                world.free(running)
            case "free":
                world.keep(running)
                world.free(running)
            case "cancel":
                world.free(running)
            case "fork":
                world.fork(running)
            case "restore":
                world.restore(running, is_alone=self.random.random() < 0.5)
            case "trim":
                if world.shape.window is not None:
                    world.keep(running, whole=False)
                    world.trim(running)
            case "append":
                if len(running.tokens) < MOST_TOKENS:
                    running.tokens += [self.token() for _ in range(self.random.randint(1, 5))]
                    self.remember(running.tokens)
            case _:
                raise AssertionError(action)

    def prompt(self) -> list[int]:
        """A new prompt: an old one, as it is, cut, with a changed token, or longer."""
        tokens = list(self.random.choice(self.prompts))
        if self.random.random() < 0.5:
            del tokens[self.random.randint(1, len(tokens)) :]
        if self.random.random() < 0.3:
            tokens[self.random.randrange(len(tokens))] = self.token()
        tokens += [self.token() for _ in range(self.random.choice((0, 0, 1, 2, 5, 12)))]
        del tokens[MOST_TOKENS:]
        self.remember(tokens)
        return tokens

    def token(self) -> int:
        return self.random.choice((0, 0, 1, 2))

    def remember(self, tokens: list[int]) -> None:
        self.prompts.append(list(tokens))
        if len(self.prompts) > 12:
            del self.prompts[self.random.randrange(12)]

    def forget(self, chat: str) -> None:
        world = self.world
        world.memory.forget(chat)
        world.pinned.discard(chat)
        assert all(chat not in owners for owners in world.cached().values())
        assert all(chat not in stored.owners for stored in world.tier.pages.values())
        assert chat not in world.memory.chats()

    def harm_tier(self, action: Action) -> None:
        tier = self.world.tier
        if action == "fill":
            tier.is_full = not tier.is_full
        elif tier.pages:
            key = self.random.choice(list(tier.pages))
            if action == "lose":
                del tier.pages[key]
            else:
                tier.damaged.add(key)


def shapes() -> st.SearchStrategy[Shape]:
    return st.builds(
        Shape,
        pages=st.integers(1, 12),
        page_size=st.integers(1, 4),
        window=st.none() | st.integers(2, 9),
        has_tier=st.booleans(),
    )


class MemoryMachine(RuleBasedStateMachine):
    """Every book is checked after every action."""

    @initialize(shape=shapes())
    def start(self, shape: Shape) -> None:
        self.player = Player(World(shape), random.Random(0))

    @rule(action=st.sampled_from(WEIGHTED), random_=st.randoms(use_true_random=False))
    def play(self, action: Action, random_: random.Random) -> None:
        self.player.random = random_
        if action in ("drop", "forget", "unpin"):
            self.player.play(action)
        else:
            with self.player.world.keeps_pins():
                self.player.play(action)

    @precondition(lambda self: hasattr(self, "player"))
    @invariant()
    def books_are_right(self) -> None:
        self.player.world.check()

    @precondition(lambda self: hasattr(self, "player"))
    @invariant()
    def the_longest_prefix_is_found(self) -> None:
        world = self.player.world
        for tokens in self.player.prompts[-3:]:
            assert world.memory.lookup(tokens).cached_tokens == world.longest_cached(tokens)


TestMemoryMachine = MemoryMachine.TestCase
TestMemoryMachine.settings = settings(max_examples=80, stateful_step_count=50)


def play_randomly(seed: int, operations: int, check_every: int) -> Counter[str]:
    """`operations` in worlds of random shapes, 2,000 in each, checked every `check_every`."""
    random_ = random.Random(seed)
    actions, weights = list(ACTIONS), list(ACTIONS.values())
    played: Counter[str] = Counter()
    for _ in range(operations // WORLD_OPERATIONS):
        window = random_.choice((None, None, random_.randint(2, 9)))
        shape = Shape(random_.randint(1, 12), random_.randint(1, 4), window, random_.random() < 0.7)
        player = Player(World(shape), random_)
        for number, action in enumerate(random_.choices(actions, weights, k=WORLD_OPERATIONS)):
            player.play(action)
            if number % check_every == 0:
                player.world.check()
        player.world.check()
        for running in list(player.world.running):
            player.world.free(running)
        player.world.memory.drop()
        assert player.world.pager.free_pages == shape.pages, f"pages leaked: seed {seed}, {shape}"
        played.update(player.played)
    return played


def test_random_use_leaks_nothing_and_shows_nobody_a_wrong_token() -> None:
    assert play_randomly(seed=1, operations=40_000, check_every=20)["restored run"] > 100


@pytest.mark.long
def test_a_million_operations(capsys: pytest.CaptureFixture[str]) -> None:
    begin = time.perf_counter()
    played = play_randomly(seed=2, operations=1_000_000, check_every=500)
    seconds = time.perf_counter() - begin
    with capsys.disabled():
        print(f"\n{played.total():,} operations, {played.total() / seconds:,.0f} a second: {dict(played)}")
    assert sum(played[action] for action in ACTIONS) == 1_000_000
