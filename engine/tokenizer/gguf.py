"""Tokenizers of GGUF files, made from their metadata.

What a field means where it is missing follows llama.cpp's src/llama-vocab.cpp.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import cast

import tokenizers
from tokenizers import decoders, models

from engine.errors import TokenizerError
from engine.tokenizer.base import Vocabulary
from engine.tokenizer.files import is_control_shaped
from engine.tokenizer.gguf_metadata import PREFIX, Fields, TokenKind, TokenTable, read_table
from engine.tokenizer.gguf_pieces import PieceRules, make_pieces
from engine.tokenizer.gguf_pretokenizers import PRE_TOKENIZERS, PreTokenizer
from engine.tokenizer.interface import Tokenizer
from engine.tokenizer.json_backend import JsonModel, JsonTokenizer
from engine.tokenizer.json_checks import package_errors
from engine.tokenizer.markers import AddedToken
from engine.tokenizer.sentencepiece_backend import SentencePieceTokenizer
from engine.tokenizer.vocabulary import TURN_ENDS, Roles, make_vocabulary

MAX_MATCHED_TOKENS = 65_536
MAX_MATCHED_CHARACTERS = 1_000_000
"""Most tokens that are matched whole, and characters of them together: a text is searched for each."""
_ENDS = ("</s>", "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "<｜end▁of▁sentence｜>")
"""Further control tokens that end an answer. Hugging Face lists them in generation_config.json, GGUF nowhere;
llama.cpp knows them by these names."""
log = logging.getLogger(__name__)


def load_gguf_tokenizer(metadata: Mapping[str, object], *, where: str, rows: int) -> Tokenizer:
    """The tokenizer that a GGUF file's metadata describes.

    The flag add_eos_token is checked but not followed: it is about complete texts, and every text that is
    encoded here is one to go on from.

    Args:
        metadata: all of it, as plain Python values.
        where: the file, for error messages.
        rows: the model's embedding rows.

    Raises:
        TokenizerError: one line that names file and field.
    """
    fields = Fields(metadata, where)
    model = fields.text(f"{PREFIX}model")
    if model not in ("llama", "gpt2"):
        said = "is missing" if model is None else f"is {model!r:.80}"
        raise TokenizerError(f'{where}: {PREFIX}model {said}; MLXR knows "llama" and "gpt2"')
    fields.flag(f"{PREFIX}add_eos_token")
    table = read_table(fields, rows)
    return _load_pieces(fields, table, rows) if model == "llama" else _load_byte_level(fields, table, rows)


def _load_pieces(fields: Fields, table: TokenTable, rows: int) -> Tokenizer:
    """The kind called "llama": sentencepiece's.

    A text after a control token gets a leading space as if it were a text's start, which llama.cpp and the
    models' first Hugging Face tokenizers ("legacy") do.
    """
    if fields.items(f"{PREFIX}precompiled_charsmap", int):
        raise fields.fault(f"{PREFIX}precompiled_charsmap", "asks for a normalisation that MLXR has not")
    ids = _role_ids(fields, table, bos=1, eos=2)
    controls = _controls(fields, table, ids)
    rules = PieceRules(
        prefix_space=fields.flag(f"{PREFIX}add_space_prefix") is not False,
        squeeze_spaces=fields.flag(f"{PREFIX}remove_extra_whitespaces") is True,
    )
    unknown = _unknown(fields, table)
    pieces = make_pieces(table, controls, unknown, rules, fields)
    added = {token: AddedToken(table.texts[token], token, special=True) for token in sorted(controls)}
    vocabulary = _vocabulary(fields, table, added, ids, rows, add_bos=True)
    return SentencePieceTokenizer(pieces, added.values(), vocabulary, legacy=True)


def _load_byte_level(fields: Fields, table: TokenTable, rows: int) -> Tokenizer:
    """The kind called "gpt2": byte-level BPE, its merges listed and its cuts known by name."""
    cuts = _pre_tokenizer(fields)
    if table.of_kind(TokenKind.BYTE):
        raise fields.fault(f"{PREFIX}token_type", "has byte tokens, which byte-level vocabularies have not")
    ids = _role_ids(fields, table)
    controls = _controls(fields, table, ids)
    vocabulary = {text: token for token, text in enumerate(table.texts)}
    backend = tokenizers.Tokenizer(_byte_pairs(fields, vocabulary, ignore_merges=cuts.ignore_merges))
    if (normalizer := cuts.normalizer()) is not None:
        backend.normalizer = normalizer
    backend.pre_tokenizer = cuts.steps()
    backend.decoder = decoders.ByteLevel()
    model = JsonModel(backend, fields.where)
    matched = sorted(controls.union(table.of_kind(TokenKind.USER_DEFINED)))
    model.add([AddedToken(table.texts[token], token, special=token in controls) for token in matched])
    added = model.added_tokens()
    return JsonTokenizer(model, added, _vocabulary(fields, table, added, ids, rows, add_bos=cuts.add_bos))


def _role_ids(
    fields: Fields, table: TokenTable, bos: int | None = None, eos: int | None = None
) -> dict[str, int]:
    """Ids of the tokens that start and end texts, turns and messages; `bos` and `eos` where nothing is said.

    Those two are taken for it only if they are control tokens.
    """
    ids: dict[str, int] = {}
    for role, default in (("bos", bos), ("eos", eos), ("eot", None), ("eom", None)):
        token = fields.token(f"{PREFIX}{role}_token_id", len(table.texts))
        if token is None and default in table.of_kind(TokenKind.CONTROL):
            token = default
        if token is not None:
            ids[role] = token
    return ids


def _controls(fields: Fields, table: TokenTable, ids: Mapping[str, int]) -> frozenset[int]:
    """Ids of the tokens that a person's text must never become: by type, by role, by name, by shape.

    Converters write some that are none by type: turn ends, and sentencepiece's user-defined ones.
    """
    said = {*table.of_kind(TokenKind.CONTROL, TokenKind.UNKNOWN), *ids.values()}
    ordinary = table.of_kind(TokenKind.NORMAL, TokenKind.USER_DEFINED)
    looks = {token for token in ordinary if _names_a_control(table.texts[token])}
    controls = (said | looks).difference(table.of_kind(TokenKind.BYTE))
    matched = controls.union(table.of_kind(TokenKind.USER_DEFINED))
    characters = sum(len(table.texts[token]) for token in matched)
    if len(matched) > MAX_MATCHED_TOKENS or characters > MAX_MATCHED_CHARACTERS:
        raise fields.fault(
            f"{PREFIX}token_type",
            f"has {len(matched)} control and user-defined tokens of {characters} characters, too many",
        )
    return frozenset(controls)


def _names_a_control(text: str) -> bool:
    return is_control_shaped(text) or text in TURN_ENDS


def _unknown(fields: Fields, table: TokenTable) -> int:
    """The token for what no piece covers: the one of that type, else the one named so, else 0."""
    named = fields.token(f"{PREFIX}unknown_token_id", len(table.texts))
    found = [*table.of_kind(TokenKind.UNKNOWN), *([] if named is None else [named])]
    if not found and table.ids[TokenKind.NORMAL][:1] == [0]:
        raise fields.fault(f"{PREFIX}token_type", "has no unknown token")
    return found[0] if found else 0


def _pre_tokenizer(fields: Fields) -> PreTokenizer:
    name = fields.text(f"{PREFIX}pre")
    if name is None:
        log.warning(
            "%s: %spre is missing, so the text is cut by llama.cpp's default, which may not be the model's;"
            " a newer conversion answers better",
            fields.where,
            PREFIX,
        )
        name = "default"
    if name not in PRE_TOKENIZERS:
        raise TokenizerError(
            f"{fields.where}: {PREFIX}pre is {name!r:.80}, a way to cut text that MLXR does not know and"
            " without which its token ids would be wrong; get this model in safetensors instead"
        )
    return PRE_TOKENIZERS[name]


def _byte_pairs(fields: Fields, vocabulary: dict[str, int], *, ignore_merges: bool) -> models.BPE:
    """The model of the file's merges: two tokens with a space between them, the first to be merged first."""
    name = f"{PREFIX}merges"
    listed = cast("list[str] | None", fields.items(name, str))
    if listed is None:
        raise fields.fault(name, "is missing")
    merges = [(left, right) for left, _, right in (item.partition(" ") for item in listed)]
    try:
        with package_errors():  # it looks up every token of them
            return models.BPE(vocab=vocabulary, merges=merges, ignore_merges=ignore_merges)
    except ValueError as error:
        for place, (left, right) in enumerate(merges):
            if not {left, right, left + right}.issubset(vocabulary):
                odd = f"has {listed[place]!r:.80} as its item {place}, which is not made of tokens"
                raise fields.fault(name, odd) from error
        raise fields.fault(name, f"cannot be used ({error})") from error


def _vocabulary(
    fields: Fields,
    table: TokenTable,
    added: Mapping[int, AddedToken],
    ids: Mapping[str, int],
    rows: int,
    *,
    add_bos: bool,
) -> Vocabulary:
    """What the metadata says of the tokens; `add_bos` is what holds where it does not say."""
    wants_bos = fields.flag(f"{PREFIX}add_bos_token")
    if wants_bos and "bos" not in ids:
        raise fields.fault(f"{PREFIX}add_bos_token", f"is true, but {PREFIX}bos_token_id is missing")
    template = fields.text("tokenizer.chat_template")
    ends = {token.id for token in added.values() if token.special and token.text in _ENDS}
    roles = Roles(
        named={f"{role}_token": table.texts[ids[role]] for role in ("bos", "eos") if role in ids},
        bos_id=ids.get("bos"),
        wants_bos=add_bos if wants_bos is None else wants_bos,
        eos_ids=frozenset(ends.union(ids[role] for role in ("eos", "eot", "eom") if role in ids)),
        template=None if template is None else (template, f"{fields.where}: tokenizer.chat_template"),
    )
    return make_vocabulary(dict(enumerate(table.texts)), added, roles, rows=rows, where=fields.where)
