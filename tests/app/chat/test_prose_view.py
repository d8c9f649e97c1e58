"""Prose: Markdown made safe, links that open outside, and nothing loaded from disk."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import (
    QDesktopServices,
    QFont,
    QImage,
    QTextBlockFormat,
    QTextCursor,
    QTextDocument,
    QTextTable,
)
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat.document_style import HEADING_PX
from app.chat.prose_view import ProseView
from app.theme import COLUMN_WIDTH, DARK, LIGHT


@pytest.fixture
def prose(qtbot: QtBot) -> ProseView:
    prose = ProseView()
    qtbot.addWidget(prose)
    return prose


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    urls: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: urls.append(url.toString()))
    return urls


def test_markdown_becomes_words(prose: ProseView) -> None:
    prose.show_markdown("# Title\n\nSome **bold** words\n\n- one\n- two", LIGHT)
    assert prose.toPlainText().split("\n") == ["Title", "Some bold words", "one", "two"]


def test_words_between_two_lines_across_are_shown(prose: ProseView) -> None:
    prose.show_markdown("---\n\n## Title\n\nSome words.\n\n---\n\nMore.", LIGHT)
    assert prose.toPlainText().split() == ["Title", "Some", "words.", "More."]


@pytest.mark.parametrize("words", ["In ~/Library on a Mac, in ~/.local on Linux.", "From ~5~ to ~10 GB"])
def test_tildes_are_shown_and_strike_nothing_out(prose: ProseView, words: str) -> None:
    prose.show_markdown(words, LIGHT)
    assert prose.toPlainText() == words
    assert "line-through" not in prose.toHtml()


@pytest.mark.parametrize("mark", ["*", "_"])
def test_words_are_stressed_by_asterisks_and_by_underscores(prose: ProseView, mark: str) -> None:
    prose.show_markdown(f"{mark}first{mark} and {mark * 2}second{mark * 2}", LIGHT)
    assert prose.toPlainText() == "first and second"
    cursor = QTextCursor(prose.document())
    cursor.setPosition(1)
    assert cursor.charFormat().fontItalic()
    cursor.movePosition(QTextCursor.MoveOperation.End)
    assert cursor.charFormat().fontWeight() >= QFont.Weight.Bold
    assert "underline" not in prose.toHtml()


def test_words_between_two_pairs_of_tildes_are_struck_out(prose: ProseView) -> None:
    prose.show_markdown("~~old~~ new", LIGHT)
    assert prose.toPlainText() == "old new"
    assert "line-through" in prose.toHtml()


def test_headings_have_sizes_of_ours(prose: ProseView) -> None:
    prose.show_markdown("# One\n\n## Two\n\n### Three", LIGHT)
    block = prose.document().begin()
    for level in (1, 2, 3):
        assert block.begin().fragment().charFormat().font().pixelSize() == HEADING_PX[level]
        block = block.next()


def test_tables_are_tables_with_lines(prose: ProseView) -> None:
    prose.show_markdown("| a | b |\n|---|---:|\n| 1 | 2 |", LIGHT)
    tables = [frame for frame in prose.document().rootFrame().childFrames() if isinstance(frame, QTextTable)]
    assert [(table.rows(), table.columns()) for table in tables] == [(2, 2)]
    assert tables[0].format().borderBrush().color().name() == LIGHT.border


@pytest.mark.parametrize("markdown", ["| a | b |\n|---|---:|\n| 1 | 2 |", "# Title\n\nSome `code`.\n\n- one"])
def test_words_are_laid_out_once(prose: ProseView, markdown: str) -> None:
    prose.show_markdown("Something else.", LIGHT)
    prose.height_for(COLUMN_WIDTH)
    layouts: list[str] = []
    prose.document().documentLayout().update.connect(lambda: layouts.append("one"))
    prose.show_markdown(markdown, LIGHT)
    assert prose.height_for(COLUMN_WIDTH) > 0
    assert len(layouts) == 1


def test_the_first_words_are_laid_out_for_the_usual_width_in_the_right_font(prose: ProseView) -> None:
    prose.show_markdown("Some words.", LIGHT)
    layouts: list[str] = []
    prose.document().documentLayout().update.connect(lambda: layouts.append("one"))
    prose.height_for(COLUMN_WIDTH)
    prose.show()
    assert not layouts


def test_another_theme_lays_words_out_once(prose: ProseView, application: QApplication) -> None:
    appearance = Appearance(application, "light")
    prose.show()
    prose.show_markdown("| a | b |\n|---|---:|\n| 1 | 2 |", LIGHT)
    height, font = prose.height_for(COLUMN_WIDTH), prose.document().defaultFont()
    layouts: list[str] = []
    prose.document().documentLayout().update.connect(lambda: layouts.append("one"))
    appearance.choose("dark")
    prose.show_markdown(prose.shown, DARK)
    assert prose.height_for(COLUMN_WIDTH) == height
    assert prose.document().defaultFont() == font
    assert len(layouts) == 1


def test_html_is_shown_and_not_obeyed(prose: ProseView) -> None:
    prose.show_markdown("<b>not bold</b> <img src='file:///etc/passwd'>", LIGHT)
    assert "<b>not bold</b>" in prose.toPlainText()


def test_images_are_not_read_from_disk(prose: ProseView, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    red = QImage(20, 20, QImage.Format.Format_RGB32)
    red.fill(0xFF0000)
    assert red.save(str(picture))
    prose.show_markdown(f"See ![a red square](file://{picture}) and ![it again]({picture}).", LIGHT)
    assert prose.toPlainText() == "See [image: a red square] and [image: it again]."
    for url in (QUrl.fromLocalFile(str(picture)), QUrl(str(picture))):
        loaded = prose.document().resource(QTextDocument.ResourceType.ImageResource.value, url)
        assert loaded.size().toTuple() == (1, 1)


@pytest.mark.parametrize(
    "url", ["https://example.org/a?b=c", "http://example.org", "mailto:someone@example.org"]
)
def test_links_open_outside(prose: ProseView, opened: list[str], url: str) -> None:
    prose.anchorClicked.emit(QUrl(url))
    assert opened == [url]


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "javascript:alert(1)", "mlxr://x", "relative/path", "#top"]
)
def test_other_links_do_nothing(prose: ProseView, opened: list[str], url: str) -> None:
    prose.anchorClicked.emit(QUrl(url))
    assert opened == []


def test_plain_text_is_shown_as_it_is(prose: ProseView) -> None:
    prose.show_plain("# not a *heading*\n  <b>")
    assert prose.toPlainText() == "# not a *heading*\n  <b>"


def test_height_follows_width_and_long_words_break(prose: ProseView) -> None:
    prose.show_plain("x" * 1000)
    assert prose.height_for(100) > 5 * prose.height_for(1000)
    assert prose.document().size().width() <= 1000


def test_the_theme_colours_code(prose: ProseView) -> None:
    prose.show_markdown("some `code`", DARK)
    assert DARK.hover in prose.toHtml()


@pytest.mark.parametrize("show", ["show_markdown", "grow_markdown"])
def test_one_long_word_is_laid_out_about_as_quickly_as_many(prose: ProseView, show: str) -> None:
    def seconds(text: str) -> float:
        begun = time.process_time()
        getattr(prose, show)(text, LIGHT)
        prose.height_for(COLUMN_WIDTH)
        return time.process_time() - begun

    words = seconds("4a7f " * 40_000)
    assert seconds("4a7f4" * 40_000) < 8 * words


def formats(prose: ProseView) -> dict[str, QTextBlockFormat]:
    """How each block looks, by its words."""
    found: dict[str, QTextBlockFormat] = {}
    block = prose.document().begin()
    while block.isValid():
        found[block.text()] = block.blockFormat()
        block = block.next()
    return found


def test_a_line_across_has_the_colour_of_other_lines(prose: ProseView) -> None:
    prose.show_markdown("Above\n\n---\n\nBelow", DARK)
    prose.setFixedSize(300, prose.height_for(300))
    image = prose.grab().toImage()
    colours = {image.pixelColor(250, y).name() for y in range(image.height())}  # beside the words
    assert DARK.border in colours
    assert len(colours) == 2


def test_a_quotation_is_set_apart(prose: ProseView) -> None:
    prose.show_markdown("Said:\n\n> Some words and [a link](https://example.org)", LIGHT)
    cursor = prose.document().find("words")
    assert cursor.charFormat().foreground().color().name() == LIGHT.muted
    assert prose.document().find("link").charFormat().foreground().color().name() != LIGHT.muted
    assert cursor.blockFormat().leftMargin() > formats(prose)["Said:"].leftMargin()


def test_code_within_a_list_stands_together_and_is_seen_to_its_end(prose: ProseView) -> None:
    line = "run " * 100
    prose.show_markdown(f"1. Do:\n\n    ```\n    {line}\n    last\n    ```\n\n2. Done", LIGHT)
    prose.height_for(300)
    assert prose.document().size().width() <= 300
    first, last = formats(prose)[line], formats(prose)["last"]
    assert first.bottomMargin() == last.topMargin() == 0
    assert first.background().color().name() == last.background().color().name() == LIGHT.hover


@pytest.mark.parametrize("first", [1, 98, 998, 9_998, 99_998])
def test_numbers_of_a_list_are_not_cut_off(prose: ProseView, first: int) -> None:
    prose.show_markdown("1. x\n1. x\n1. x", LIGHT, first)
    prose.setFixedSize(300, prose.height_for(300))
    image = prose.grab().toImage()
    at_the_edge = {image.pixelColor(0, y).name() for y in range(image.height())}
    assert at_the_edge == {image.pixelColor(image.width() - 1, 0).name()}


def test_the_ground_of_code_has_no_gaps(prose: ProseView) -> None:
    prose.show_markdown("    one\n    two\n\n    three", LIGHT)
    prose.setFixedSize(300, prose.height_for(300))
    image = prose.grab().toImage()
    assert {image.pixelColor(250, y).name() for y in range(image.height() - 1)} == {LIGHT.hover}


def test_what_follows_a_list_is_as_far_from_it_as_from_a_paragraph(prose: ProseView) -> None:
    prose.show_markdown("- one\n- two\n\nAfter.\n\nMore.", LIGHT)
    shown = formats(prose)
    assert shown["one"].bottomMargin() < shown["two"].bottomMargin() == shown["After."].bottomMargin()


def test_the_head_of_a_table_is_aligned_as_its_rows(prose: ProseView) -> None:
    prose.show_markdown("| a | b | c |\n|---|---:|:-:|\n| 1 | 2 | 3 |", LIGHT)
    shown = formats(prose)
    for head, row in zip("abc", "123", strict=True):
        assert shown[head].alignment() == shown[row].alignment()
    assert shown["b"].alignment() != shown["c"].alignment()


@pytest.mark.parametrize("above", ["> A quotation.", "Words."])
def test_the_head_of_a_table_is_one_bold_line_whatever_is_above(prose: ProseView, above: str) -> None:
    prose.show_markdown(f"{above}\n\n| first | second |\n|---|---:|\n| 1 | 2 |", LIGHT)
    (table,) = (
        frame for frame in prose.document().rootFrame().childFrames() if isinstance(frame, QTextTable)
    )
    for column, words in enumerate(("first", "second")):
        cell = table.cellAt(0, column)
        assert cell.firstCursorPosition().block().text() == words
        assert cell.firstCursorPosition().block() == cell.lastCursorPosition().block()
        assert cell.lastCursorPosition().charFormat().fontWeight() >= QFont.Weight.Bold
