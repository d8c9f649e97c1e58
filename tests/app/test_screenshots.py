"""Pictures of the window in every state a person meets, saved under build/screenshots to be looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.disk_use import DiskUseViewModel
from app.chat.tree import Versions
from app.chat.user_message_view import UserMessageView
from app.model_location import GUIDE
from app.theme import DARK, LIGHT
from app.widgets.settings_dialog import SettingsDialog
from app.wiring import Desktop
from engine import CacheCounts, ChatMemory, ChatsCached, Refusal, Stats, WayOut
from tests.app.conftest import OpenDesktop
from tests.fakes.scripted_engine import ScriptedEngine

FOLDER = Path(__file__).resolve().parents[2] / "build" / "screenshots"

ANSWER = """\
A **page** is a block of the KV cache that holds *16 tokens*; a chat takes as many pages as it needs. \
Three things follow from that:

1. Memory is given out in small pieces, so little of it is wasted.
2. Chats that begin alike can share pages.
3. What a chat no longer needs is free at once: see `pages` in the status line.

### How much is that?

| Model | Bytes a token | Bytes a page |
|---|---:|---:|
| Guide | 4,096 | 65,536 |
| TinyLlama 1.1B | 22,528 | 360,448 |

You can work it out yourself:

```python
def page_bytes(layers: int, kv_heads: int, head_dim: int, page_size: int = 16) -> int:
    \"\"\"Keys and values of one page, over all layers, in 16-bit floats.\"\"\"
    return 2 * 2 * layers * kv_heads * head_dim * page_size
```

More is in the [documentation](https://example.org).
"""
EARLIER = ("How do I open another model?", "Where are my chats saved?", "A title for the second newsletter")


def pieces(text: str) -> tuple[str, ...]:
    """The text, a word at a time."""
    return tuple(word + " " for word in text.split(" "))


def save(desktop: Desktop, name: str) -> QImage:
    """Draw the window to a file, and return what was drawn."""
    for _ in range(3):  # the layout settles in steps
        QApplication.processEvents()
    FOLDER.mkdir(parents=True, exist_ok=True)
    image = desktop.window.grab().toImage()
    assert image.save(str(FOLDER / f"{name}.png"))
    return image


def say(qtbot: QtBot, desktop: Desktop, question: str) -> None:
    """Ask, and wait for the whole answer."""
    assert desktop.conversation.send(question)
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)


@pytest.fixture(params=["light", pytest.param("dark", marks=pytest.mark.long)])
def look(request: pytest.FixtureRequest) -> str:
    """Both themes."""
    return request.param


@pytest.fixture
def desktop(open_desktop: OpenDesktop, qtbot: QtBot, look: str) -> Desktop:
    """The window with the guide and a few earlier chats."""
    desktop = open_desktop(model=GUIDE)
    desktop.appearance.choose("light" if look == "light" else "dark")
    engine = engine_of(desktop)
    for question in EARLIER:
        say(qtbot, desktop, question)
        desktop.conversation.new_chat()
    engine.reply = pieces(ANSWER)
    return desktop


def engine_of(desktop: Desktop) -> ScriptedEngine:
    """The scripted engine behind the window."""
    assert isinstance(desktop.engine, ScriptedEngine)
    return desktop.engine


def background(image: QImage) -> str:
    """The colour at the conversation's edge, as #rrggbb."""
    return image.pixelColor(image.width() - 20, image.height() // 2).name()


def test_empty(desktop: Desktop, look: str) -> None:
    image = save(desktop, f"{look}-empty")
    assert background(image) == (LIGHT if look == "light" else DARK).window


def test_chat(desktop: Desktop, qtbot: QtBot, look: str) -> None:
    say(qtbot, desktop, "What is a page, and why does a chat need many of them?")
    save(desktop, f"{look}-chat")


def test_streaming(desktop: Desktop, qtbot: QtBot, look: str) -> None:
    engine_of(desktop).hold_after = 40
    desktop.conversation.send("What is a page?")
    qtbot.waitUntil(lambda: desktop.conversation.messages[-1].generated_tokens == 40)
    save(desktop, f"{look}-streaming")


def test_waiting(desktop: Desktop, qtbot: QtBot, look: str) -> None:
    engine_of(desktop).hold_after = 0
    desktop.conversation.send("What is a page?")
    qtbot.waitUntil(lambda: desktop.conversation.state.phase == "prefilling")
    save(desktop, f"{look}-waiting")


def test_error(desktop: Desktop, qtbot: QtBot, look: str) -> None:
    engine_of(desktop).fail_loads = "config.json has no num_hidden_layers; use a complete model folder"
    engine_of(desktop).reply = pieces("The first half of the answer is kept,")
    engine_of(
        desktop
    ).fail_with = "the prompt has 4,812 tokens; this model holds 2,048: shorten it or start a new chat"
    say(qtbot, desktop, "Here is a very long text. Please shorten it.")
    desktop.models.open("/models/broken-model")
    qtbot.waitUntil(lambda: desktop.models.state.phase == "failed")
    desktop.pane.store_banner.say(
        "Chats cannot be saved in /data (disk full); this session's chats are kept in memory only."
    )
    save(desktop, f"{look}-error")


@pytest.mark.parametrize(("name", "size"), [("narrow", (640, 480)), ("small", (900, 600))])
def test_sizes(desktop: Desktop, qtbot: QtBot, look: str, name: str, size: tuple[int, int]) -> None:
    desktop.window.resize(*size)
    save(desktop, f"{look}-{name}-empty")
    say(qtbot, desktop, "What is a page, and why does a chat need many of them?")
    save(desktop, f"{look}-{name}")
    assert desktop.window.size().toTuple() == size


def talk_with_branches(qtbot: QtBot, desktop: Desktop) -> None:
    """A question in two versions, the second one with three answers of which the middle one is on show."""
    engine_of(desktop).reply = pieces(
        "A page holds the keys and values of 16 tokens, in every layer of the model."
    )
    say(qtbot, desktop, "What is a page?")
    edit = desktop.conversation.messages[0].id
    say_with(qtbot, desktop, lambda: desktop.conversation.edit(edit, "What is a page, in one sentence?"))
    for _ in range(2):
        answer = desktop.conversation.messages[-1].id
        say_with(qtbot, desktop, lambda answer=answer: desktop.conversation.regenerate(answer))
    desktop.conversation.switch(desktop.conversation.messages[-1].id, -1)
    engine_of(desktop).reply = pieces("As many as it has tokens, divided by 16 and rounded up.")
    say(qtbot, desktop, "And how many pages does a chat take?")


def say_with(qtbot: QtBot, desktop: Desktop, ask: Callable[[], bool]) -> None:
    """Ask in some other way, and wait for the whole answer."""
    assert ask()
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)


SIZES = pytest.mark.parametrize(
    "size",
    [(1080, 720), pytest.param((640, 480), marks=pytest.mark.long)],
    ids=["wide", "narrow"],
)


@SIZES
def test_versions(desktop: Desktop, qtbot: QtBot, look: str, size: tuple[int, int]) -> None:
    desktop.window.resize(*size)
    talk_with_branches(qtbot, desktop)
    save(desktop, f"{look}-versions-{size[0]}")
    first = desktop.conversation.messages[0].id
    assert desktop.conversation.versions(first) == Versions(2, 2)


@SIZES
def test_editor(desktop: Desktop, qtbot: QtBot, look: str, size: tuple[int, int]) -> None:
    desktop.window.resize(*size)
    talk_with_branches(qtbot, desktop)
    desktop.window.activateWindow()
    views = desktop.pane.transcript.findChildren(UserMessageView)
    view = next(view for view in views if view.message.id == desktop.conversation.messages[2].id)
    view.edit_button.click()
    assert view.editor
    qtbot.keyClicks(view.editor.focusProxy(), " Please answer with a number, and say how you got there.")
    qtbot.waitUntil(lambda: "cached" in desktop.pane.status_line.words)
    save(desktop, f"{look}-editor-{size[0]}")
    assert not view.editor.visibleRegion().isEmpty()


@SIZES
def test_prediction(desktop: Desktop, qtbot: QtBot, look: str, size: tuple[int, int]) -> None:
    desktop.window.resize(*size)
    say(qtbot, desktop, "What is a page, and why does a chat need many of them?")
    desktop.pane.composer.set_text("And how many does this chat take?")
    qtbot.waitUntil(lambda: "cached" in desktop.pane.status_line.words)
    save(desktop, f"{look}-prediction-{size[0]}")


@SIZES
def test_miss(desktop: Desktop, qtbot: QtBot, look: str, size: tuple[int, int]) -> None:
    desktop.window.resize(*size)
    engine_of(desktop).reply = pieces("A page holds the keys and values of 16 tokens.")
    engine_of(desktop).miss = (1512, "evicted")
    say(qtbot, desktop, "What is a page?")
    engine_of(desktop).miss = None
    engine_of(desktop).hold_after = 0
    desktop.conversation.send("And how many does this chat take?")
    qtbot.waitUntil(lambda: desktop.conversation.state.phase == "prefilling")
    save(desktop, f"{look}-miss-{size[0]}")


SEVERAL = (
    "A page holds the keys and values of **16 tokens**, in every layer of the model. A chat takes as many "
    "as it needs, and gives them back when it no longer does.",
    "Think of a ring binder: each page has room for 16 tokens of what the model has read. Chats that begin "
    "alike share their first pages.\n\n```python\npages = -(-tokens // 16)\n```",
    "A block of memory.",
    "1. Sixteen tokens wide.\n2. As deep as the model has layers.\n3. Shared where chats begin alike.",
)


@pytest.mark.parametrize(
    ("count", "size"), [(2, (1080, 720)), (3, (1080, 720)), (4, (640, 480)), (4, (1500, 800))]
)
@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "ready"])
def test_several_answers(
    desktop: Desktop, qtbot: QtBot, look: str, count: int, size: tuple[int, int], streaming: bool
) -> None:
    desktop.window.resize(*size)
    engine = engine_of(desktop)
    engine.reply, *others = (pieces(words) for words in SEVERAL)
    engine.others = tuple(others)
    engine.hold_after = 12 if streaming else None
    assert desktop.conversation.send("What is a page? I would like to choose.", count)
    phase = "streaming" if streaming else "choosing"
    qtbot.waitUntil(lambda: desktop.conversation.state.phase == phase)
    if streaming:
        qtbot.waitUntil(lambda: desktop.conversation.messages[-1].generated_tokens >= 4)
    save(desktop, f"{look}-several-{count}-{size[0]}-{phase}")
    assert len(desktop.conversation.together(desktop.conversation.messages[-1].id)) == count


def test_one_of_several_is_kept(desktop: Desktop, qtbot: QtBot, look: str) -> None:
    engine = engine_of(desktop)
    engine.reply, *others = (pieces(words) for words in SEVERAL)
    engine.others = tuple(others)
    assert desktop.conversation.send("What is a page? I would like to choose.", 3)
    qtbot.waitUntil(lambda: desktop.conversation.state.phase == "choosing")
    first, *_ = desktop.conversation.together(desktop.conversation.messages[-1].id)
    desktop.pane.transcript.kept.emit(first.id)
    qtbot.waitUntil(desktop.window.toast.isVisible)
    save(desktop, f"{look}-several-kept")
    assert desktop.conversation.versions(first.id) == Versions(1, 3)


def test_several_menu(desktop: Desktop, qtbot: QtBot, look: str) -> None:
    desktop.pane.composer.set_text("What is a page?")
    menu = desktop.pane.composer.several_button.menu()
    menu.popup(desktop.window.mapToGlobal(desktop.window.rect().center()))
    qtbot.waitUntil(menu.isVisible)
    FOLDER.mkdir(parents=True, exist_ok=True)
    assert menu.grab().save(str(FOLDER / f"{look}-several-menu.png"))
    menu.close()
    save(desktop, f"{look}-composer")


@SIZES
def test_refusal(desktop: Desktop, qtbot: QtBot, look: str, size: tuple[int, int]) -> None:
    desktop.window.resize(*size)
    engine_of(desktop).reply = ()
    engine_of(desktop).fail_with = "KV memory is full"
    pinned = desktop.chats.rows[0].chat.id
    ways = (WayOut("shorten", 1400), WayOut("evict", 96, pinned), WayOut("quantise", 8))
    engine_of(desktop).refusal = Refusal(600, 512, ways)
    say(qtbot, desktop, "Here is a very long text. Please shorten it.")
    save(desktop, f"{look}-refusal-{size[0]}")


def test_dots(desktop: Desktop, qtbot: QtBot, look: str) -> None:
    say(qtbot, desktop, "What is a page, and why does a chat need many of them?")
    here, *others = [row.chat.id for row in desktop.chats.rows]
    memory = {
        here: ChatMemory(3_145_728, 1_048_576, 524_288),
        others[0]: ChatMemory(0, 2_097_152, 0),
        others[1]: ChatMemory(1_048_576, 0, 0),
    }
    desktop.chats.handle(ChatsCached(memory))
    save(desktop, f"{look}-dots")


def test_pins(desktop: Desktop, qtbot: QtBot, look: str) -> None:
    say(qtbot, desktop, "What is a page, and why does a chat need many of them?")
    here, *others = [row.chat.id for row in desktop.chats.rows]
    for chat_id in (here, others[1], others[2]):
        desktop.pins.pin(chat_id, True)
    memory = {
        here: ChatMemory(3_145_728, 0, 0),
        others[0]: ChatMemory(1_048_576, 0, 0),
        others[1]: ChatMemory(0, 2_097_152, 0),
    }
    desktop.chats.handle(ChatsCached(memory))
    save(desktop, f"{look}-pins")
    assert desktop.pins.pinned == {here, others[1], others[2]}


def test_pin_menu(desktop: Desktop, qtbot: QtBot, look: str) -> None:
    chats = desktop.window.sidebar.list
    menu = chats.menu_for(chats.model().index(0, 0))
    menu.popup(desktop.window.mapToGlobal(desktop.window.rect().center()))
    qtbot.waitUntil(menu.isVisible)
    FOLDER.mkdir(parents=True, exist_ok=True)
    assert menu.grab().save(str(FOLDER / f"{look}-pin-menu.png"))
    menu.close()


def test_resting(desktop: Desktop, qtbot: QtBot, look: str) -> None:
    say(qtbot, desktop, "What is a page, and why does a chat need many of them?")
    engine_of(desktop).rest()
    qtbot.waitUntil(lambda: desktop.models.state.phase == "resting")
    save(desktop, f"{look}-resting")
    assert "rests" in desktop.pane.status_line.words


@pytest.mark.parametrize("known", [False, True], ids=["unknown", "known"])
def test_settings(desktop: Desktop, qtbot: QtBot, look: str, known: bool) -> None:
    desktop.disk_use = DiskUseViewModel(in_use=True)
    if known:
        cache = CacheCounts(ssd_bytes=2_147_000_000, spilled_bytes_today=341_000_000)
        desktop.disk_use.handle(Stats("", 0, 0, 0.0, 0.0, 0, 512, 0, 0, cache=cache))
    desktop.pane.settings_wanted.emit()
    dialog = desktop.window.findChild(SettingsDialog)
    assert dialog
    qtbot.waitUntil(dialog.isVisible)
    if known:
        dialog.activateWindow()
        dialog.cache.disk_cache.setFocus()
        qtbot.waitUntil(dialog.cache.disk_cache.hasFocus)
    else:
        dialog.cache.disk_cache.setChecked(False)
    FOLDER.mkdir(parents=True, exist_ok=True)
    assert dialog.grab().save(str(FOLDER / f"{look}-settings{'' if known else '-before'}.png"))


def test_settings_with_a_full_disk(desktop: Desktop, qtbot: QtBot, look: str) -> None:
    desktop.pane.settings_wanted.emit()
    dialog = desktop.window.findChild(SettingsDialog)
    assert dialog
    qtbot.waitUntil(dialog.isVisible)
    problem = "the disk has 6.0 GB free and 8.6 GB must stay free; saving goes on when there is more"
    cache = CacheCounts(ssd_bytes=2_147_000_000, ssd_problem=problem)
    desktop.disk_use.handle(Stats("", 0, 0, 0.0, 0.0, 0, 512, 0, 0, cache=cache))
    qtbot.waitUntil(lambda: problem in dialog.cache.disk_use)
    FOLDER.mkdir(parents=True, exist_ok=True)
    assert dialog.grab().save(str(FOLDER / f"{look}-settings-full-disk.png"))


def test_search_and_undo(desktop: Desktop, qtbot: QtBot, look: str) -> None:
    say(qtbot, desktop, "What is a page?")
    desktop.chats.delete(desktop.chats.rows[-1].chat.id)
    desktop.window.sidebar.search_field.setText("pages")
    qtbot.waitUntil(lambda: bool(desktop.chats.rows[0].snippet))
    desktop.pane.transcript.scroll_pages(-0.7)
    desktop.window.sidebar.search_field.setFocus()
    save(desktop, f"{look}-search")
    assert desktop.window.toast.isVisible()


def test_model_menu(desktop: Desktop, qtbot: QtBot, look: str) -> None:
    desktop.models.add_recent(["/models/Qwen3-4B-Instruct-4bit", "/models/TinyLlama-1.1B-Chat"])
    menu = desktop.pane.model_button.menu()
    menu.popup(desktop.window.mapToGlobal(desktop.window.rect().center()))
    qtbot.waitUntil(menu.isVisible)
    FOLDER.mkdir(parents=True, exist_ok=True)
    assert menu.grab().save(str(FOLDER / f"{look}-menu.png"))
    menu.close()
