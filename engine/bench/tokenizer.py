"""A tokenizer with a text for every token of a model whose weights are random: what it draws can be told."""

from __future__ import annotations

import struct
from pathlib import Path

import sentencepiece

_SCORE = -1000.0
"""Of a piece that no text is cut into before any other."""


def whole_vocabulary(tokenizer: Path, vocab: int) -> bytes:
    """`tokenizer.model` of that folder with pieces more, to `vocab` of them; texts are cut as before.

    A model without them tells nothing of most tokens, so that times between these cannot be seen.

    The file is a `ModelProto` of sentencepiece_model.proto, whose field 1 are the pieces: a message each,
    with the text (1) and the score (2). Fields that repeat may stand anywhere, also behind the others
    (https://protobuf.dev/programming-guides/encoding/).
    """
    file = tokenizer / "tokenizer.model"
    known = sentencepiece.SentencePieceProcessor(model_file=str(file)).get_piece_size()
    return file.read_bytes() + b"".join(_piece(f"▁w{token}") for token in range(known, vocab))


def _piece(text: str) -> bytes:
    letters = text.encode()
    return _field(1, _field(1, letters) + bytes([2 << 3 | 5]) + struct.pack("<f", _SCORE))


def _field(number: int, content: bytes) -> bytes:
    """With its length before it, of less than 128 bytes."""
    if len(content) > 127:
        raise ValueError(f"a field of {len(content)} bytes; there is room for 127")
    return bytes([number << 3 | 2, len(content)]) + content
