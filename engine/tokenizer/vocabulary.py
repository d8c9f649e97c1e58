"""From a tokenizer's tokens and their roles to what is asked of them, checked against the model's rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.errors import TokenizerError
from engine.tokenizer.base import Vocabulary
from engine.tokenizer.chat_template import ChatTemplate
from engine.tokenizer.markers import AddedToken, Markers

TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|end_of_turn|>")
"""Control tokens with which chat templates close the assistant's turn."""


@dataclass(frozen=True, slots=True)
class Roles:
    """What a tokenizer's files say that some of its tokens are for.

    Attributes:
        named: texts of the tokens that have a role, such as {"bos_token": "<s>"}.
        bos_id: the token that starts a text.
        wants_bos: whether the model's texts start with it.
        eos_ids: ids that end an answer, as far as they are named; they need not exist.
        template: the chat template's source, and where it was found for error messages.
    """

    named: Mapping[str, str]
    bos_id: int | None
    wants_bos: bool
    eos_ids: frozenset[int]
    template: tuple[str, str] | None


def make_vocabulary(
    texts: Mapping[int, str], added: Mapping[int, AddedToken], roles: Roles, *, rows: int, where: str
) -> Vocabulary:
    """Gather what `MarkerTokenizer` needs.

    Args:
        texts: every token by id.
        added: those that are matched whole before the model's pieces are.
        rows: the model's embedding rows.
        where: the folder or file, for error messages.

    Raises:
        TokenizerError: there are no tokens, one that is needed has no row, or the template is broken.
    """
    if not texts:
        raise TokenizerError(f"{where}: the tokenizer's vocabulary is empty; download it again")
    named = dict(roles.named)
    if roles.bos_id is not None and roles.bos_id in texts:
        named.setdefault("bos_token", texts[roles.bos_id])
    template = None
    if roles.template is not None:
        source, origin = roles.template
        template = ChatTemplate(source, named, origin=origin)
    unusable = _without_rows(texts, added, named, roles.template, rows, where)
    return Vocabulary(
        size=1 + max(token_id for token_id in texts if token_id not in unusable),
        controls=Markers(token for token in added.values() if token.special),
        bos_id=roles.bos_id,
        wants_bos=roles.wants_bos and roles.bos_id is not None,
        eos_ids=_eos_ids(texts, roles.eos_ids, rows),
        chat_template=template,
        unusable=unusable,
    )


def _without_rows(
    texts: Mapping[int, str],
    added: Mapping[int, AddedToken],
    named: Mapping[str, str],
    template: tuple[str, str] | None,
    rows: int,
    where: str,
) -> dict[int, str]:
    """Tokens without an embedding row that nothing needs, such as a text model's token for images.

    Raises TokenizerError for one that ordinary text, the chat template or a role needs.
    """
    source = template[0] if template else ""
    roles = {named.get("bos_token"), named.get("eos_token")}
    beyond = {token_id: text for token_id, text in texts.items() if token_id >= rows}
    for token_id, text in sorted(beyond.items()):
        token = added.get(token_id)
        if token is None or not token.special or text in roles or text in source:
            raise TokenizerError(
                f"{where}: the tokenizer's token {text!r:.80} is {token_id}, but the model has"
                f" {rows} embedding rows; the tokenizer is another model's: download both again"
            )
    return beyond


def _eos_ids(texts: Mapping[int, str], said: frozenset[int], rows: int) -> frozenset[int]:
    """What is said to end an answer, and the turn ends among the tokens.

    Ids without an embedding row are left out: the model cannot generate them.
    """
    ids = {text: token_id for token_id, text in texts.items()}
    ends = {ids[text] for text in TURN_ENDS if text in ids and not _is_channel_end(text, ids)}
    return frozenset(token for token in said | ends if 0 <= token < rows)


def _is_channel_end(text: str, ids: Mapping[str, int]) -> bool:
    """In the harmony format "<|end|>" closes one of a turn's messages; "<|return|>" closes the turn."""
    return text == "<|end|>" and "<|return|>" in ids
