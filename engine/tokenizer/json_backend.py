"""Tokenizers of `tokenizer.json` files, run by the `tokenizers` package."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import tokenizers

from engine.errors import InvalidRequest, TokenizerError
from engine.loading.small_files import read_bytes
from engine.tokenizer.base import MarkerTokenizer, Place, Vocabulary
from engine.tokenizer.decoders import TokenReader, read_decoder
from engine.tokenizer.detokenizer import Pieces
from engine.tokenizer.json_checks import check_decoder, check_source, package_errors
from engine.tokenizer.markers import CONTEXT, AddedToken, Markers

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
"""The package's threads do not outlast a fork, of which it warns otherwise; batches of one text need none."""

_ANCHOR = "\ufdd3"  # no vocabulary has a piece that begins with it


class JsonModel:
    """A `tokenizers` object, as of a `tokenizer.json`, and what is read from it."""

    def __init__(self, backend: tokenizers.Tokenizer, where: str) -> None:
        """Take `backend`; `where` names its file in errors.

        Raises TokenizerError when its decoder is not known here.
        """
        self.backend = backend
        self._where = where
        decoder = self.backend.decoder
        spec: object = None if decoder is None else json.loads(decoder.__getstate__())
        check_decoder(spec, where)
        self.reader: TokenReader = read_decoder(spec, where)
        # A model of pieces with scores may choose a control token's piece for a person's text.
        self.is_unigram = isinstance(self.backend.model, tokenizers.models.Unigram)

    @classmethod
    def read(cls, path: Path) -> JsonModel:
        """Raises TokenizerError when `path` is not a tokenizer, or one whose decoder is not known here."""
        raw = read_bytes(path, TokenizerError)
        check_source(raw, str(path))
        try:
            with package_errors():
                backend = tokenizers.Tokenizer.from_buffer(raw)
        except ValueError as error:
            raise TokenizerError(
                f"{path} is not a readable tokenizer ({error}); download it again"
            ) from error
        backend.no_truncation()
        backend.no_padding()
        return cls(backend, str(path))

    def added_tokens(self) -> dict[int, AddedToken]:
        """Every token that is matched before the model's pieces are, by id."""
        return {
            token_id: AddedToken(token.content, token_id, token.special, token.lstrip, token.rstrip)
            for token_id, token in self.backend.get_added_tokens_decoder().items()
        }

    def texts(self) -> dict[int, str]:
        """Every token by id, in no order.

        One by one, as no other thread goes on while the package makes a table of them, 0.2 s for 150,000; but
        where ids are left out nobody knows how far they go.
        """
        count = self.backend.get_vocab_size(with_added_tokens=True)
        texts = {i: text for i in range(count) if (text := self.backend.id_to_token(i)) is not None}
        if len(texts) == count:
            return texts
        return {token_id: text for text, token_id in self.backend.get_vocab(with_added_tokens=True).items()}

    def add(self, tokens: Iterable[AddedToken]) -> None:
        """Add tokens, or change the flags of ones that are there.

        Raises TokenizerError when one cannot have the id it is said to have.
        """
        for special, group in groupby(tokens, lambda token: token.special):
            self._add(list(group), special=special)

    def _add(self, tokens: Sequence[AddedToken], *, special: bool) -> None:
        """Add tokens, all of them control tokens or none, in one call, since each goes through all anew."""
        there = {token.text for token in tokens if self.backend.token_to_id(token.text) is not None}
        new = [
            tokenizers.AddedToken(
                token.text, lstrip=token.lstrip, rstrip=token.rstrip, normalized=False, special=special
            )
            for token in tokens
        ]
        if special:
            self.backend.add_special_tokens(new)
        else:
            self.backend.add_tokens(new)
        for token in tokens:
            got = self.backend.token_to_id(token.text)
            if got != token.id:
                known = token.text in there
                have = "the vocabulary has it as" if known else "its place in the vocabulary would be"
                raise TokenizerError(
                    f"{self._where}: added token {token.text!r:.80} is said to be {token.id},"
                    f" but {have} {got}"
                )

    def encode(self, text: str, *, as_prompt: bool = False) -> list[int]:
        """Ids of `text`; `as_prompt` with the tokens that the file puts around one.

        As a batch, because the package lets other threads, a window's too, go on only then.

        Raises InvalidRequest for text that the vocabulary has no token for, not even one for the unknown.
        """
        try:
            with package_errors():
                return self.backend.encode_batch_fast([text], add_special_tokens=as_prompt)[0].ids
        except ValueError as error:
            raise InvalidRequest(
                f"{self._where}: this model's tokenizer cannot encode the text: {error}"
            ) from error

    def leading_token(self) -> int | None:
        """The token that the file itself puts before a text, or None."""
        if not self.encode("", as_prompt=True):
            return None
        plain = self.encode("a")
        full = self.encode("a", as_prompt=True)
        return full[0] if len(full) > len(plain) and full[1 : 1 + len(plain)] == plain else None


class JsonTokenizer(MarkerTokenizer):
    """Implements `Tokenizer` with a `tokenizer.json`."""

    def __init__(self, model: JsonModel, added: Mapping[int, AddedToken], vocabulary: Vocabulary) -> None:
        """`added` is what `model.added_tokens()` says once nothing is added any more."""
        self._model = model
        self._backend = model.backend
        self._reader = model.reader
        self._added = added
        controls = [token for token in added.values() if token.special]
        self._greedy = Markers(controls if model.is_unigram else filter(None, map(self._spelt, controls)))
        self._has_context = False
        self._cache: dict[int, bytes | None] = {}
        super().__init__(
            vocabulary,
            Pieces(
                self._token_bytes,
                leading_spaces=model.reader.leading_spaces,
                strip_first=model.reader.strip_first,
                separator=model.reader.separator,
            ),
        )

    def _token_bytes(self, token: int) -> bytes | None:
        if token not in self._cache:
            self._cache[token] = self._read(token)
        return self._cache[token]

    def _read(self, token: int) -> bytes | None:
        added = self._added.get(token)
        if added is not None:
            return None if added.special else self._reader.added_bytes(added.text)
        text = self._backend.id_to_token(token) if 0 <= token < self.vocab_size else None
        return None if text is None else self._reader.token_bytes(text)

    def _spelt(self, token: AddedToken) -> AddedToken | None:
        """The control token as a marker for the text, if any, of which the model itself makes it."""
        self._backend.encode_special_tokens = True
        for text in (token.text, self._reader.token_bytes(token.text).decode("utf-8", "replace")):
            if self._model.encode(text) == [token.id]:
                return replace(token, text=text)
        return None

    def _encode_marked(self, text: str) -> list[int]:
        self._backend.encode_special_tokens = False
        return self._model.encode(text)

    def _encode_text(self, text: str, place: Place) -> list[int]:
        self._backend.encode_special_tokens = True
        ids: list[int] = []
        for part in self._greedy.break_up(text):
            ids += self._encode_part(part, place)
            place = "after token"
        return ids

    def _encode_part(self, text: str, place: Place) -> list[int]:
        """Ids of `text`, with the space in front that the file puts at this place."""
        if place == "first":
            return self._model.encode(text)
        if not self._has_context:
            self._backend.add_tokens([tokenizers.AddedToken(CONTEXT, normalized=False)])
            self._has_context = True
        if place == "inside" and self._puts_spaces():
            before = self._model.encode(_ANCHOR)
            ids = self._model.encode(_ANCHOR + text)
            if ids[: len(before)] == before:
                return ids[len(before) :]
        return self._model.encode(CONTEXT + text)[1:]

    def _puts_spaces(self) -> bool:
        """Whether a text that follows a token gets a space in front."""
        return (self._token_bytes(self._model.encode(CONTEXT + "a")[1]) or b"").startswith(b" ")
