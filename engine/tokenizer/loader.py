"""Finding, reading and checking a model folder's tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from engine.errors import TokenizerError
from engine.tokenizer.base import Vocabulary
from engine.tokenizer.files import TokenizerFiles, is_control_shaped, read_files
from engine.tokenizer.interface import Tokenizer
from engine.tokenizer.json_backend import JsonModel, JsonTokenizer
from engine.tokenizer.markers import AddedToken
from engine.tokenizer.sentencepiece_backend import PieceModel, SentencePieceTokenizer, read_pieces
from engine.tokenizer.vocabulary import TURN_ENDS, Roles, make_vocabulary


@dataclass(frozen=True, slots=True)
class _Model:
    """The embedding rows and the ids that config.json gives."""

    folder: Path
    rows: int
    eos: frozenset[int]
    bos: int | None


def load_tokenizer(
    folder: Path, *, vocab_size: int, config_eos: Iterable[int] = (), config_bos: int | None = None
) -> Tokenizer:
    """Load the tokenizer of the model in `folder`.

    `tokenizer.json` is taken before `tokenizer.model` where both are: it holds the added tokens, and the
    rules around them, with which chat models were trained; most tools read it first.

    Args:
        vocab_size: the model's embedding rows; a tokenizer with fewer tokens is fine, the rest is padding.
        config_eos: end tokens that config.json names; joined with those of every other file.
        config_bos: the start token that config.json names, used when no tokenizer file names one.

    Raises:
        TokenizerError: there is no tokenizer, a file is broken, or it does not fit the model.
    """
    model = _Model(folder, vocab_size, frozenset(config_eos), config_bos)
    files = read_files(folder)
    if (path := folder / "tokenizer.json").is_file():
        return _load_json(path, files, model)
    if (path := folder / "tokenizer.model").is_file():
        return _load_sentencepiece(path, files, model)
    raise TokenizerError(f"{folder} has neither tokenizer.json nor tokenizer.model; download one of them")


def _load_json(path: Path, files: TokenizerFiles, model: _Model) -> Tokenizer:
    tokenizer = JsonModel.read(path)
    there = tokenizer.added_tokens()
    tokenizer.add([token for token in files.added if there.get(token.id) != token])
    added = tokenizer.added_tokens()
    mended: list[AddedToken] = []
    for text in _control_texts(files):
        token_id = tokenizer.backend.token_to_id(text)
        if token_id is not None:
            token = added.get(token_id, AddedToken(text, token_id, special=False))
            mended += [] if token.special else [replace(token, special=True)]
    tokenizer.add(mended)
    added = tokenizer.added_tokens()
    texts = tokenizer.texts()
    leading = tokenizer.leading_token()
    bos = _first(_named_id(files, "bos_token", tokenizer.backend.token_to_id), leading, model.bos)
    wants_bos = leading is not None if files.add_bos is None else files.add_bos
    vocabulary = _vocabulary(texts, added, files, model, bos=bos, wants_bos=wants_bos, eos=None)
    return JsonTokenizer(tokenizer, added, vocabulary)


def _load_sentencepiece(path: Path, files: TokenizerFiles, model: _Model) -> Tokenizer:
    pieces = PieceModel(read_pieces(path), str(path), prefix_space=files.prefix_space)
    texts = dict(enumerate(pieces.texts))
    added = {token_id: AddedToken(texts[token_id], token_id, special=True) for token_id in pieces.control_ids}
    added |= {i: AddedToken(text, i, special=True) for i, text in texts.items() if is_control_shaped(text)}
    for token in files.added:
        if texts.setdefault(token.id, token.text) != token.text:
            raise TokenizerError(
                f"{path}: added token {token.text!r:.80} is said to be {token.id}, which is"
                f" {texts[token.id]!r:.80}"
            )
        added[token.id] = token
    ids = {text: token_id for token_id, text in texts.items()}
    for text in _control_texts(files):
        if text in ids:
            token = added.get(ids[text], AddedToken(text, ids[text], special=True))
            added[token.id] = replace(token, special=True)
    bos = _first(_named_id(files, "bos_token", ids.get), pieces.bos_id, model.bos)
    wants_bos = pieces.bos_id is not None if files.add_bos is None else files.add_bos
    vocabulary = _vocabulary(texts, added, files, model, bos=bos, wants_bos=wants_bos, eos=pieces.eos_id)
    return SentencePieceTokenizer(pieces, added.values(), vocabulary, legacy=files.legacy)


def _vocabulary(
    texts: Mapping[int, str],
    added: Mapping[int, AddedToken],
    files: TokenizerFiles,
    model: _Model,
    *,
    bos: int | None,
    wants_bos: bool,
    eos: int | None,
) -> Vocabulary:
    """What the files say, checked against the model; `eos` is the tokenizer file's own."""
    if wants_bos and bos is not None and not 0 <= bos < model.rows:
        raise TokenizerError(
            f"{model.folder}: the start token is {bos}, but the model has {model.rows} embedding rows;"
            " correct bos_token_id in config.json, or download the tokenizer again"
        )
    named = dict(files.named)
    ids = {text: token_id for token_id, text in texts.items()}
    own = {ids.get(named.get("eos_token", "")), eos}
    if eos is not None:
        named.setdefault("eos_token", texts[eos])
    roles = Roles(
        named=named,
        bos_id=bos,
        wants_bos=wants_bos,
        eos_ids=model.eos | files.eos_ids | {token for token in own if token is not None},
        template=files.template,
    )
    return make_vocabulary(texts, added, roles, rows=model.rows, where=str(model.folder))


def _control_texts(files: TokenizerFiles) -> list[str]:
    """Texts of tokens that are control tokens whatever their own flags say."""
    roles = [files.named[name] for name in ("bos_token", "eos_token") if name in files.named]
    return list(dict.fromkeys([*roles, *sorted(files.extra_special), *TURN_ENDS]))


def _named_id(files: TokenizerFiles, name: str, find: Callable[[str], int | None]) -> int | None:
    text = files.named.get(name)
    return None if text is None else find(text)


def _first(*ids: int | None) -> int | None:
    """The first id that is known."""
    return next((token_id for token_id in ids if token_id is not None), None)
