"""Tokenizers of `tokenizer.model` files, run by sentencepiece."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from sentencepiece import SentencePieceProcessor

from engine.errors import TokenizerError
from engine.loading.small_files import read_bytes
from engine.tokenizer.base import MarkerTokenizer, Place, Vocabulary
from engine.tokenizer.detokenizer import Pieces
from engine.tokenizer.markers import AddedToken, Markers

_ANY = 1 << 30
_BYTE = re.compile("<0x[0-9A-Fa-f]{2}>")
SPACE = "\u2581"  # how pieces write a space
# ModelProto.normalizer_spec (field 3) { add_dummy_prefix (field 3): false }. In protobuf's encoding a message
# that comes twice is merged, so these bytes, appended to a model, change this one setting of it.
_NO_DUMMY_PREFIX = b"\x1a\x02\x18\x00"


def read_pieces(path: Path) -> bytes:
    """The sentencepiece model in `path`. Raises TokenizerError when it cannot be read or is empty."""
    proto = read_bytes(path, TokenizerError)
    if not proto:
        raise TokenizerError(f"{path} is empty; download it again")
    return proto


class PieceModel:
    """A sentencepiece model, and its twin that does not put a space before a text."""

    def __init__(self, proto: bytes, where: str, *, prefix_space: bool = True) -> None:
        """Take the serialised ModelProto that `where` holds.

        Without `prefix_space` no text gets a space in front, whatever the model says.

        Raises TokenizerError when `proto` is not a sentencepiece model.
        """
        try:
            self._first = SentencePieceProcessor(model_proto=proto)
            self._inner = SentencePieceProcessor(model_proto=proto + _NO_DUMMY_PREFIX)
            self.size = self._first.get_piece_size()
            ids = list(range(self.size))
            self.texts = self._first.id_to_piece(ids)
        except (OSError, RuntimeError, UnicodeDecodeError) as error:
            raise TokenizerError(
                f"{where} is not a readable sentencepiece model ({error!s:.120}); download it again"
            ) from error
        if not prefix_space:
            self._first = self._inner
        controls = self._first.is_control(ids)
        self.control_ids = frozenset(i for i in ids if controls[i] or i == self._first.unk_id())
        self._byte_flags = self._first.is_byte(ids)
        for text in (text for text, is_byte in zip(self.texts, self._byte_flags, strict=True) if is_byte):
            if not _BYTE.fullmatch(text):
                raise TokenizerError(f"{where}: piece {text!r:.80} is no byte; download it again")
        self.bos_id = _known(self._first.bos_id())
        self.eos_id = _known(self._first.eos_id())
        probe = cast(str, self._first.normalize("a  a"))
        self.has_dummy_prefix = probe.startswith(SPACE)
        self.squeezes_spaces = SPACE * 2 not in probe

    def encode(self, text: str, *, first: bool) -> list[int]:
        """Ids of `text`; with `first` the model's leading space, if it puts one, is put."""
        processor = self._first if first else self._inner
        return cast("list[int]", processor.encode(text, out_type=int))

    def piece_bytes(self, token: int) -> bytes:
        """What the piece stands for: one byte, or text with its spaces."""
        text = self.texts[token]
        if self._byte_flags[token]:
            return bytes([int(text[3:5], 16)])  # "<0x41>"
        return text.replace(SPACE, " ").encode("utf-8")


def _known(token: int) -> int | None:
    return token if token >= 0 else None


class SentencePieceTokenizer(MarkerTokenizer):
    """Implements `Tokenizer` with a sentencepiece model and the tokens that were added to it."""

    def __init__(
        self, model: PieceModel, added: Iterable[AddedToken], vocabulary: Vocabulary, *, legacy: bool
    ) -> None:
        """Put `model` and `added`, all tokens matched before its pieces are, together.

        With `legacy` a text after a control token gets a leading space as if it were a text's start.
        """
        tokens = tuple(added)
        self._model = model
        self._legacy = legacy
        self._plain = Markers(token for token in tokens if not token.special)
        self._every = Markers(tokens)
        # Pieces that sentencepiece itself matches whole: only broken up do their texts stay text.
        self._greedy = Markers(
            token for token in tokens if token.special and model.encode(token.text, first=False) == [token.id]
        )
        self._shown = {
            token.id: None if token.special else token.text.replace(SPACE, " ").encode("utf-8")
            for token in tokens
        }
        pieces = Pieces(
            self._token_bytes,
            leading_spaces=_ANY if model.squeezes_spaces else int(model.has_dummy_prefix),
        )
        super().__init__(vocabulary, pieces)

    def _token_bytes(self, token: int) -> bytes | None:
        if token in self._shown:
            return self._shown[token]
        if not 0 <= token < self._model.size or token in self._model.control_ids:
            return None
        return self._model.piece_bytes(token)

    def _encode_text(self, text: str, place: Place) -> list[int]:
        return self._encode_around(self._plain, text, place)

    def _encode_marked(self, text: str) -> list[int]:
        return self._encode_around(self._every, text, "first")

    def _encode_around(self, markers: Markers, text: str, place: Place) -> list[int]:
        ids: list[int] = []
        for part in markers.split(text):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += self._encode_pieces(part, place == "first" or (self._legacy and place != "inside"))
            place = "after token"
        return ids

    def _encode_pieces(self, text: str, first: bool) -> list[int]:
        ids: list[int] = []
        for part in self._greedy.break_up(text):
            ids += self._model.encode(part, first=first)
            first = False
        return ids
