"""How an answer's Markdown looks: spacing, headings, tables and code in a text document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QFontDatabase,
    QTextBlock,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextFrameFormat,
    QTextImageFormat,
    QTextLength,
    QTextListFormat,
    QTextTable,
    QTextTableCell,
)

from app.chat.blocks import Rows
from app.theme import Theme

LINE_HEIGHT = 145.0  # per cent
TIGHT = 115.0
CODE_LINE = 100.0  # the ground of one line reaches to that of the next
BODY_PX = 14
CODE_PX = 13
HEADING_PX = {1: 21, 2: 18, 3: 16}
PARAGRAPH_GAP = 10
LIST_GAP = 4
INDENT, DIGIT = 40, 9
HEADING_GAP = (18, 6)
CELL_PADDING = 6
QUOTE_INSET = 20
PROPORTIONAL = int(QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)

_FRONT_MATTER = QTextDocument.MarkdownFeature(0x100000)
"""Of Qt's GitHub dialect: all between two lines "---" is hidden where the first one begins the text."""

_STRUCK = QTextDocument.MarkdownFeature(0x200)
"""Of Qt's GitHub dialect: words between tildes are struck out; in "~/a and ~/b" the tildes are missing."""

_UNDERLINED = QTextDocument.MarkdownFeature(0x4000)
"""Of Qt's GitHub dialect: "_words_" and "__words__" are underlined, and neither italic nor bold."""

Property = QTextFormat.Property

FEATURES = (
    QTextDocument.MarkdownFeature.MarkdownDialectGitHub & ~_FRONT_MATTER & ~_UNDERLINED
    | QTextDocument.MarkdownFeature.MarkdownNoHTML
)
"""What a model writes is text: its HTML is shown, never obeyed."""


def set_markdown(document: QTextDocument, markdown: str, theme: Theme, number: int | None = None) -> None:
    """Fill `document` with `markdown`, laid out in the theme: once, when all is in its form.

    A list at its beginning is numbered from `number`, where there is one.
    """
    document.setLayoutEnabled(False)
    _write(document, markdown, theme)
    if number is not None:
        _number(document, number)
    _make_room_for_numbers(document)
    document.setLayoutEnabled(True)


def _write(document: QTextDocument, markdown: str, theme: Theme) -> None:
    document.setMarkdown(markdown, FEATURES if "~~" in markdown else FEATURES & ~_STRUCK)
    cursor = QTextCursor(document)
    cursor.beginEditBlock()
    for place, block in enumerate(_blocks(document)):
        _space(cursor, block, place == 0, theme)
        _style_pieces(cursor, block, theme)
    for table in _tables(document):
        _style_table(table, theme)
    cursor.endEditBlock()


def set_rows(document: QTextDocument, rows: Rows, columns: Sequence[float], theme: Theme) -> None:
    """Fill `document` with part of a table, whose `columns` are so wide in pixels. Nothing is around it."""
    document.setLayoutEnabled(False)
    _write(document, rows.text, theme)
    set_columns(document, columns)
    for table in () if rows.first else _tables(document):
        table.removeRows(0, 1)
    document.setLayoutEnabled(True)


def set_columns(document: QTextDocument, columns: Sequence[float]) -> None:
    """Give the columns of its tables these widths, in pixels; a column of less than a character has one."""
    for table in _tables(document):
        style = table.format()
        style.setColumnWidthConstraints([QTextLength(QTextLength.Type.FixedLength, wide) for wide in columns])
        style.setTopMargin(0)
        style.setBottomMargin(0)
        table.setFormat(style)


def _blocks(document: QTextDocument) -> Iterator[QTextBlock]:
    block = document.begin()
    while block.isValid():
        yield block
        block = block.next()


def _number(document: QTextDocument, number: int) -> None:
    items = document.begin().textList()
    if items:
        style = items.format()
        style.setStart(number)
        items.setFormat(style)


def _make_room_for_numbers(document: QTextDocument) -> None:
    """Qt draws the number of an item to the left of its words, and what has no room there is cut off."""
    digits = max((len(str(_last_number(block))) for block in _blocks(document)), default=1)
    document.setIndentWidth(INDENT + DIGIT * max(0, digits - 3))


def _last_number(block: QTextBlock) -> int:
    """The last number of the list that it is in."""
    items = block.textList()
    numbered = items and items.format().style() == QTextListFormat.Style.ListDecimal
    return items.format().start() + items.count() - 1 if numbered else 0


def _space(cursor: QTextCursor, block: QTextBlock, first: bool, theme: Theme) -> None:
    old = block.blockFormat()
    level, quoted = old.headingLevel(), old.intProperty(Property.BlockQuoteLevel)
    spacing = QTextBlockFormat()
    cursor.setPosition(block.position())
    in_table = bool(cursor.currentTable())
    height = CODE_LINE if _is_code(block) else TIGHT if level or in_table else LINE_HEIGHT
    spacing.setLineHeight(height, PROPORTIONAL)
    if in_table:
        top, bottom = 0, 0
    elif level:
        top, bottom = HEADING_GAP
    elif _is_code(block) and _is_code(block.next()):
        top, bottom = 0, 0
    elif block.textList():
        top, bottom = 0, LIST_GAP if block.next().textList() else PARAGRAPH_GAP
    else:
        top, bottom = 0, PARAGRAPH_GAP
    if not block.next().isValid():
        bottom = 0
    spacing.setTopMargin(0 if first else top)
    spacing.setBottomMargin(bottom)
    spacing.setNonBreakableLines(False)  # of code: there is no way to scroll to its end
    if quoted:
        spacing.setLeftMargin(QUOTE_INSET * quoted)
        spacing.setRightMargin(0)
    if _is_code(block):
        spacing.setBackground(QBrush(QColor(theme.hover)))
    elif old.hasProperty(Property.BlockTrailingHorizontalRulerWidth):
        spacing.setBackground(QBrush(QColor(theme.border)))  # which is the line's colour
    cursor.mergeBlockFormat(spacing)


def _is_code(block: QTextBlock) -> bool:
    return block.blockFormat().hasProperty(Property.BlockCodeLanguage)


def _style_pieces(cursor: QTextCursor, block: QTextBlock, theme: Theme) -> None:
    """Give headings their size, code its ground and quotations their colour, and put words for images."""
    style = block.blockFormat()
    level, quoted = style.headingLevel(), style.intProperty(Property.BlockQuoteLevel)
    for start, length, style in reversed(_pieces(block)):
        cursor.setPosition(start)
        cursor.setPosition(start + length, QTextCursor.MoveMode.KeepAnchor)
        if style.isImageFormat():
            cursor.insertText(_image_words(style.toImageFormat()), _muted_format(theme))
        elif level:
            # Qt's own adjustment would win over a size in pixels.
            style.clearProperty(Property.FontSizeAdjustment)
            style.setProperty(Property.FontPixelSize, HEADING_PX.get(level, BODY_PX + 1))
            style.setFontWeight(600)
            cursor.setCharFormat(style)
        elif style.fontFixedPitch() or _is_code(block):
            cursor.mergeCharFormat(_code_format(theme))
        elif quoted and not style.isAnchor():
            cursor.mergeCharFormat(_muted_format(theme))


def _pieces(block: QTextBlock) -> list[tuple[int, int, QTextCharFormat]]:
    """Position, length and format of each run of equal format."""
    found: list[tuple[int, int, QTextCharFormat]] = []
    pieces = block.begin()
    while not pieces.atEnd():
        fragment = pieces.fragment()
        found.append((fragment.position(), fragment.length(), fragment.charFormat()))
        pieces += 1
    return found


def _image_words(image: QTextImageFormat) -> str:
    alt = image.property(Property.ImageAltText) or image.name()
    return f"[image: {alt}]"


def _muted_format(theme: Theme) -> QTextCharFormat:
    style = QTextCharFormat()
    style.setForeground(QBrush(QColor(theme.muted)))
    return style


def _code_format(theme: Theme) -> QTextCharFormat:
    style = QTextCharFormat()
    style.setFontFamilies([QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()])
    style.setProperty(Property.FontPixelSize, CODE_PX)
    style.setBackground(QBrush(QColor(theme.hover)))
    return style


def _tables(document: QTextDocument) -> Iterator[QTextTable]:
    for frame in document.rootFrame().childFrames():
        if isinstance(frame, QTextTable):
            yield frame


def _style_table(table: QTextTable, theme: Theme) -> None:
    style = table.format()
    style.setBorder(1)
    style.setBorderCollapse(True)
    style.setBorderBrush(QBrush(QColor(theme.border)))
    style.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
    style.setCellPadding(CELL_PADDING)
    style.setCellSpacing(0)
    style.setBottomMargin(PARAGRAPH_GAP)
    style.setTopMargin(2)
    style.setAlignment(Qt.AlignmentFlag.AlignLeft)
    table.setFormat(style)
    _mend_head(table.cellAt(0, 0))
    for column in range(table.columns() if table.rows() > 1 else 0):  # Qt aligns all but the head
        head = table.cellAt(0, column).firstCursorPosition()
        below = table.cellAt(1, column).firstCursorPosition().blockFormat()
        aligned = QTextBlockFormat()
        aligned.setAlignment(below.alignment())
        head.mergeBlockFormat(aligned)


def _mend_head(first: QTextTableCell) -> None:
    """Behind a quotation Qt puts a line more into a table's first cell, whose words are not bold then."""
    cursor = first.firstCursorPosition()
    if cursor.block() == first.lastCursorPosition().block():
        return
    cursor.deleteChar()
    cursor.setPosition(first.lastPosition(), QTextCursor.MoveMode.KeepAnchor)
    bold = QTextCharFormat()
    bold.setFontWeight(QFont.Weight.Bold)
    cursor.mergeCharFormat(bold)
