"""Any sequence of questions, edits, answers, branches and switches: nothing lost, every token exact."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from PySide6.QtWidgets import QApplication

from app.chat.token_path import tokens_along
from app.chat.tree import MessageTree
from engine import Failed, Finished, Generate, Keep, Sample, TextChunk, Timing
from tests.app.chat.conversation_stage import Stage

MODELS = ("/models/one", "/models/two")
NO_TIMING = Timing(0.0, 0, 0, 0.0, 0.0)
choices = st.integers(0, 50)
ends = st.sampled_from(["stop", "stop", "length", "cancelled", "early", "failed"])
kept = st.integers(0, 12)
counts = st.sampled_from([1, 1, 2, 3])


@dataclass(frozen=True, slots=True)
class Computed:
    """What the engine computed for an answer: model, the ids of prompt and answer, and the words above it."""

    model: str
    tokens: tuple[int, ...]
    words: tuple[str, ...]


class Conversations(RuleBasedStateMachine):
    """Plays the user and the engine, and writes down what was asked and answered."""

    @initialize()
    def begin(self) -> None:
        self.stage = Stage()
        self.chat = self.stage.chat
        self.running: dict[str, Generate] = {}
        self.computed: dict[str, Computed] = {}
        self.models: dict[str, str] = {}  # that was loaded when a request was sent
        self.samples: dict[str, list[str]] = {}  # the messages that a request's answers go to
        self.heard = 0
        self.chats: list[str] = []  # in the order in which they were begun
        self.chat.chat_saved.connect(lambda chat: chat.id in self.chats or self.chats.append(chat.id))
        self.number = 0
        self.load(0)

    @rule(which=st.integers(0, 1))
    def load(self, which: int) -> None:
        self.stage.ready(MODELS[which])

    @rule(count=counts, kept=kept, end=ends, now=st.booleans())
    def send(self, count: int, kept: int, end: str, now: bool) -> None:
        self.chat.send(self.text(), count)
        self.hear(kept, end, now)

    @precondition(lambda self: self.chat.messages)
    @rule(choice=choices, kept=kept, end=ends, now=st.booleans())
    def edit(self, choice: int, kept: int, end: str, now: bool) -> None:
        questions = [message for message in self.chat.messages if message.role == "user"]
        self.chat.edit(questions[choice % len(questions)].id, self.text())
        self.hear(kept, end, now)

    @precondition(lambda self: self.chat.messages)
    @rule(choice=choices, count=counts, kept=kept, end=ends, now=st.booleans())
    def regenerate(self, choice: int, count: int, kept: int, end: str, now: bool) -> None:
        answers = [message for message in self.chat.messages if message.role == "assistant"]
        self.chat.regenerate(answers[choice % len(answers)].id, count)
        self.hear(kept, end, now)

    @precondition(lambda self: self.chat.messages)
    @rule(choice=choices)
    def keep(self, choice: int) -> None:
        """One of several answers is kept; what is said to be free is what the others were computed as."""
        together = self.chat.together(self.chat.messages[-1].id)
        one = together[choice % len(together)]
        self.chat.keep(one.id)
        if len(together) > 1 and one.text:
            assert self.chat.messages[-1].id == one.id
            assert self.chat.together(one.id) == (self.chat.messages[-1],)

    @invariant()
    def only_what_was_computed_is_let_go_of(self) -> None:
        known = {computed.tokens for computed in self.computed.values()}
        for command in self.stage.sent:
            if isinstance(command, Keep):
                assert {command.kept, *command.others} <= known
                assert command.kept not in command.others

    @precondition(lambda self: self.chat.messages)
    @rule(choice=choices, step=st.sampled_from([-1, 1]))
    def switch(self, choice: int, step: int) -> None:
        self.chat.switch(self.chat.messages[choice % len(self.chat.messages)].id, step)

    @precondition(lambda self: self.chat.messages and not self.chat.state.busy)
    @rule(choice=choices)
    def branch(self, choice: int) -> None:
        answers = [message for message in self.chat.messages if message.role == "assistant"]
        at = answers[choice % len(answers)]
        if at.status != "streaming":
            before = [message.text for message in self.chat.messages]
            path = self.chat.messages[: self.chat.messages.index(at) + 1]
            self.chat.branch(at.id)
            assert [message.text for message in self.chat.messages] == before[: len(path)]
            for old, new in zip(path, self.chat.messages, strict=True):
                if old.id in self.computed:
                    self.computed[new.id] = self.computed[old.id]

    @rule(choice=choices)
    def open(self, choice: int) -> None:
        chats = sorted(self.stage.store.chats.chats(), key=lambda chat: self.chats.index(chat.id))
        if chats:
            self.chat.open(chats[choice % len(chats)])

    @rule()
    def new_chat(self) -> None:
        self.chat.new_chat()

    @precondition(lambda self: self.running)
    @rule(choice=choices, kept=kept, end=ends)
    def answer(self, choice: int, kept: int, end: str) -> None:
        """A request that was left waiting is answered."""
        self.end(list(self.running)[choice % len(self.running)], kept, end)

    def end(self, request_id: str, kept: int, end: str) -> None:
        """The engine answers: its prompt is the history and more; or another one, where `kept` is small."""
        request = self.running.pop(request_id)
        model = self.models[request.id]
        known = request.history.tokens if request.history and request.history.model == model else ()
        prompt = (*known[: len(known) if kept > 6 else kept], self.next(), self.next())
        text = f"answer {self.next()}"
        if end == "failed":
            self.stage.play(Failed(request.id, "no", "Internal"))
            return
        if end == "early":
            others = (Sample("cancelled", "", (), None),) * (request.n - 1)
            self.stage.play(Finished(request.id, "cancelled", "", (), (), None, NO_TIMING, others=others))
            return
        reason = "cancelled" if end == "cancelled" else "length" if end == "length" else "stop"
        samples = [
            Sample(reason, f"{text} {number}", (self.next(), self.next()), None)
            for number in range(request.n)
        ]
        for number in reversed(range(request.n)):
            self.stage.play(TextChunk(request.id, text[:3], 1, number))
        first, *others = samples
        self.stage.play(
            Finished(
                request.id, reason, first.text, first.tokens, prompt, None, NO_TIMING, others=tuple(others)
            )
        )
        assert request.messages
        asked = tuple(message.content for message in request.messages)
        for message_id, sample in zip(self.samples[request.id], samples, strict=True):
            self.computed[message_id] = Computed(model, prompt + sample.tokens, (*asked, sample.text))

    @invariant()
    def the_path_goes_from_a_first_message_to_a_leaf(self) -> None:
        path = self.chat.messages
        parents = [message.parent_id for message in path]
        assert parents == [None, *(message.id for message in path)][: len(path)]
        assert all(
            message.role == ("assistant" if place % 2 else "user") for place, message in enumerate(path)
        )
        if self.chat.chat:
            stored = self.stage.store.chats.messages(self.chat.chat.id)
            assert path[-1].id not in {message.parent_id for message in stored}

    @invariant()
    def the_store_shows_the_same(self) -> None:
        if self.chat.chat:
            stored = self.stage.store.chats.messages(self.chat.chat.id)
            tree = MessageTree(stored, self.chat.chat.leaf_id)
            assert [message.id for message in tree.path] == [message.id for message in self.chat.messages]

    @invariant()
    def no_answer_is_ever_lost_and_its_tokens_are_exact(self) -> None:
        found: set[str] = set()
        for chat in self.stage.store.chats.chats():
            tree = MessageTree(self.stage.store.chats.messages(chat.id), chat.leaf_id)
            for message in self.stage.store.chats.messages(chat.id):
                if message.id in self.computed:
                    found.add(message.id)
                    assert tokens_along(tree.line(message.id)) == self.computed[message.id].tokens
        assert found == set(self.computed)

    def hear(self, kept: int, end: str, now: bool) -> None:
        """Take in the requests that were sent, each with a history that is what the engine computed."""
        for request in self.stage.requests()[self.heard :]:
            self.heard += 1
            self.running[request.id] = request
            self.models[request.id] = self.stage.models.state.path
            self.samples[request.id] = [
                message.id for message in self.chat.together(self.chat.messages[-1].id)
            ]
            if request.history:
                assert request.messages
                words = tuple(message.content for message in request.messages[: request.history.messages])
                assert (
                    Computed(request.history.model, request.history.tokens, words) in self.computed.values()
                )
            if now:
                self.end(request.id, kept, end)

    def text(self) -> str:
        return f"question {self.next()}"

    def next(self) -> int:
        self.number += 1
        return self.number


def test_any_way_through_conversations(qapp: QApplication) -> None:
    run_state_machine_as_test(Conversations, settings=settings(max_examples=60, stateful_step_count=50))
