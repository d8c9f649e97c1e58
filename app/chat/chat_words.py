"""What the chat pane says in each state, in words; without widgets."""

from __future__ import annotations

from dataclasses import dataclass

from app import text
from app.chat.cache_words import reading_words
from app.chat.open_chat import ChatState
from app.models.known_model import ModelState


@dataclass(frozen=True, slots=True)
class Greeting:
    """The empty state's words."""

    title: str
    text: str
    suggestions: tuple[str, ...]
    offers_models: bool = False


def greeting(model: ModelState, is_guide: bool) -> Greeting:
    """What a new chat says about the model that is there."""
    if model.phase in ("none", "failed"):
        return Greeting(text.NO_MODEL, text.EMPTY_NONE, (), offers_models=True)
    if is_guide:
        return Greeting(text.EMPTY_TITLE, text.EMPTY_GUIDE, text.GUIDE_SUGGESTIONS, offers_models=True)
    return Greeting(text.EMPTY_TITLE, text.EMPTY_MODEL.format(name=model.name), text.MODEL_SUGGESTIONS)


def activity(chat: ChatState, model: ModelState, is_guide: bool, elsewhere: str = "") -> str:
    """What stands in place of an answer's first word; "" once there are words or nothing is awaited.

    `elsewhere`: how far the prompt of another answer is that the model reads first; "" while it reads none.
    """
    if chat.phase == "stopping":
        return text.STOPPING
    if chat.phase == "prefilling":
        words = reading_words(chat.prefill_done, chat.prefill_total, chat.cached, chat.left)
        return f"{words} · {chat.why}" if chat.why else words
    if chat.phase == "waiting":
        if model.phase == "loading":
            return loading_words(model, is_guide)
        if chat.why:
            return text.WAITING_FOR.format(why=chat.why)
        return text.elsewhere(text.WAITING_BEHIND, elsewhere) if elsewhere else text.WAITING
    return ""


def loading_words(model: ModelState, is_guide: bool) -> str:
    """What is said while a model is opened."""
    words = text.TRYING if model.is_trying else text.LOADING
    return words.format(name=text.model_title(model.name, is_guide))


def load_problem(model: ModelState, is_guide: bool) -> str:
    """Why it could not be opened, or not with other settings; "" where nothing is wrong."""
    if not model.error:
        return ""
    words = text.LOAD_FAILED if model.phase == "failed" else text.RELOAD_FAILED
    return words.format(name=text.model_title(model.name, is_guide), error=model.error)


def absence(model: ModelState, is_guide: bool, *, is_crowded: bool = False, is_asked: bool = False) -> str:
    """What the status line says while no model is in memory.

    Of one that rests, `is_crowded`: it found no room when something was written; `is_asked`: something was
    sent, which waits for it.
    """
    if model.phase == "loading":
        return loading_words(model, is_guide)
    if model.phase == "resting":
        words = text.RESTING_ASKED if is_asked else text.RESTING_CROWDED if is_crowded else text.RESTING
        return words.format(name=text.model_title(model.name, is_guide))
    return text.NO_MODEL


def hindrance(chat: ChatState, model: ModelState) -> str:
    """What has to be done before anything can be sent; "" for nothing."""
    if chat.phase == "choosing":
        return text.KEEP_FIRST
    return text.PLACEHOLDER_NONE if model.phase in ("none", "failed") else ""


def unasked(chat: ChatState, model: ModelState, is_guide: bool) -> str:
    """Why no answer can be asked for now."""
    return hindrance(chat, model) or (text.ANSWER_FIRST if chat.busy else loading_words(model, is_guide))


def placeholder(chat: ChatState, model: ModelState, is_guide: bool) -> str:
    """What stands in the empty message field."""
    if hindered := hindrance(chat, model):
        return hindered
    return text.PLACEHOLDER.format(name="the guide" if is_guide else model.name)
