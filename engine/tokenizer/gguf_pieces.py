"""A sentencepiece model made from a GGUF file's tokens, scores and types.

Merges are found by sentencepiece itself, from the scores, so the ids are those of the model that the file was
converted from. Fields of the ModelProto: sentencepiece's src/sentencepiece_model.proto; their encoding:
protobuf's documentation, "Encoding".
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from engine.tokenizer.gguf_metadata import PREFIX, Fields, TokenKind, TokenTable
from engine.tokenizer.sentencepiece_backend import SPACE, PieceModel

log = logging.getLogger(__name__)
_BPE = 2
_FLOAT = struct.Struct("<f")
_SHORT = [bytes([value]) for value in range(128)]
_BYTE_TEXTS = {f"<0x{byte:02X}>" for byte in range(256)}


@dataclass(frozen=True, slots=True)
class PieceRules:
    """How text becomes pieces: whether a text gets a leading space, and whether runs of spaces become one."""

    prefix_space: bool
    squeeze_spaces: bool


def make_pieces(
    table: TokenTable, controls: Iterable[int], unknown: int, rules: PieceRules, fields: Fields
) -> PieceModel:
    """The model of `table`, in which `unknown` stands for text that no piece covers.

    It makes none of `controls` of any text, whatever their types; sentencepiece allows one unknown token.

    Raises TokenizerError where sentencepiece could not have made such a vocabulary.
    """
    _check_bytes(table, fields)
    texts, kinds = list(table.texts), [TokenKind.NORMAL] * len(table.texts)
    for kind, ids in table.ids.items():
        for token in ids:
            kinds[token] = kind
    for token in controls:
        kinds[token] = TokenKind.CONTROL
    kinds[unknown] = TokenKind.UNKNOWN
    for token in table.of_kind(TokenKind.USER_DEFINED):
        texts[token] = texts[token].replace(" ", SPACE)  # converters write the spaces of these plainly
    scores = _scores(table, fields)
    pieces = (_piece(*piece) for piece in zip(texts, scores, kinds, strict=True))
    proto = b"".join([*pieces, _settings(len(texts), bool(table.ids[TokenKind.BYTE]), rules)])
    return PieceModel(proto, f"{fields.where}: {PREFIX}tokens", prefix_space=rules.prefix_space)


def _scores(table: TokenTable, fields: Fields) -> list[float]:
    """A score for each token; the pair that makes the one with the highest is merged first.

    llama.cpp's converter knows no scores where a model has only a tokenizer.json, and writes one number for
    all. Then tokens are ranked by id: sentencepiece numbers those it learns in the order of their merges.
    """
    learned = table.of_kind(TokenKind.NORMAL)
    if table.scores and len({table.scores[token] for token in learned}) > 1:
        return table.scores
    log.info("%s: %sscores tells no token from another; they are ranked by id", fields.where, PREFIX)
    return [-float(token) for token in range(len(table.texts))]


def _check_bytes(table: TokenTable, fields: Fields) -> None:
    """Byte tokens: none, or one for every byte."""
    texts = {table.texts[token] for token in table.of_kind(TokenKind.BYTE)}
    if texts and texts != _BYTE_TEXTS:
        odd = min(texts - _BYTE_TEXTS, default=None) or f"none for {min(_BYTE_TEXTS - texts)}"
        raise fields.fault(f"{PREFIX}tokens", f"has byte tokens that are not <0x00> to <0xFF>: {odd:.80}")


def _settings(size: int, has_bytes: bool, rules: PieceRules) -> bytes:
    """TrainerSpec (what `encode` reads of it) and NormalizerSpec."""
    trainer = _number(3, _BPE) + _number(4, size) + _number(35, int(has_bytes))
    normalizer = (
        _bytes(1, b"identity") + _number(4, int(rules.squeeze_spaces)) + _number(5, 1)  # spaces become U+2581
    )
    return _bytes(2, trainer) + _bytes(3, normalizer)


def _piece(text: str, score: float, kind: TokenKind) -> bytes:
    """ModelProto.pieces: text (field 1), score (2, a 32-bit float), type (3, numbered as in GGUF)."""
    return _bytes(1, _bytes(1, text.encode("utf-8")) + b"\x15" + _FLOAT.pack(score) + _KIND[kind])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return b"".join((_varint(field << 3 | 2), _varint(len(value)), value))


def _varint(value: int) -> bytes:
    return _SHORT[value] if value <= 0x7F else _long_varint(value)


def _long_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


_KIND = {kind: _number(3, kind) for kind in TokenKind}
