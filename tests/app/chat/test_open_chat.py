"""A chat in memory: what asking, keeping one of several answers and branching make of its messages."""

from __future__ import annotations

from dataclasses import replace

from app.chat.open_chat import OpenChat
from app.chat.tree import MessageTree
from app.store.records import Chat, ChatMessage

QUESTION = ChatMessage("c", "user", "one", id="q")


def empty() -> OpenChat:
    return OpenChat(Chat("t", id="c", system="Be brief."), MessageTree())


def names(messages: tuple[ChatMessage, ...]) -> list[str]:
    return [message.id for message in messages]


def test_a_question_and_its_blank_answer_are_shown_and_to_be_saved() -> None:
    shown = empty()
    (answer,), changed = shown.ask(QUESTION, 1, "/m")
    assert (answer.parent_id, answer.status, answer.model, answer.text) == ("q", "streaming", "/m", "")
    assert shown.tree.path == changed == (QUESTION, answer)
    assert shown.beside(answer.id) == (answer,)


def test_of_several_the_first_is_shown_and_stands_for_all() -> None:
    shown = empty()
    answers, changed = shown.ask(QUESTION, 3, "/m")
    assert names(changed) == ["q", answers[0].id]
    assert shown.tree.leaf == answers[0]
    assert shown.together() == shown.beside(answers[2].id) == tuple(answers)
    assert shown.beside("q") == (shown.tree.get("q"),)


def test_asked_anew_the_question_stays_and_those_that_were_not_kept_are_versions() -> None:
    shown = empty()
    before, _ = shown.ask(QUESTION, 2, "/m")
    (answer,), changed = shown.ask(shown.tree.get("q"), 1, "/other")
    assert names(changed) == [before[0].id, before[1].id, "q", answer.id]
    assert shown.together() == ()
    assert shown.tree.versions(answer.id).count == 3


def test_the_one_that_is_kept_is_shown_alone_and_all_are_to_be_saved() -> None:
    shown = empty()
    answers, _ = shown.ask(QUESTION, 2, "/m")
    changed = shown.keep(answers[1].id)
    assert names(changed) == ["q", answers[0].id, answers[1].id]  # the question forgets which one was shown
    assert changed[0].shown_child is None
    assert (shown.tree.leaf, shown.together()) == (answers[1], ())


def test_a_branch_has_other_names_and_the_same_words_and_tokens() -> None:
    shown = empty()
    (answer,), _ = shown.ask(replace(QUESTION, tokens=(1, 2)), 1, "/m")
    shown.tree.replace(replace(answer, text="two", tokens=(3,), status="complete"))
    shown.ask(ChatMessage("c", "user", "three", answer.id), 1, "/m")
    branched = shown.branched(answer.id, "Branch")
    assert (branched.chat.title, branched.chat.system) == ("Branch", "Be brief.")
    assert [(message.text, message.tokens) for message in branched.tree.path] == [
        ("one", (1, 2)),
        ("two", (3,)),
    ]
    assert {message.chat_id for message in branched.tree.path} == {branched.chat.id} != {"c"}
    assert not {"q", answer.id} & {message.id for message in branched.tree.path}
