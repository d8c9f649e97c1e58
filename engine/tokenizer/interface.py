"""What the engine asks of a tokenizer, whatever file it was read from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engine.commands import Message
from engine.tokenizer.chat_template import ChatTemplate


class Detokenizer(Protocol):
    """Turns the tokens of one answer into text as they come; amortised O(1) a token.

    The texts given out, concatenated, are exactly `Tokenizer.decode` of all tokens added.
    """

    def add(self, token: int) -> str:
        """The text that `token` made final: whole code points only, and never a change of what was given out.

        Bytes of a character that later tokens may complete are held back; bytes that no token can complete
        become U+FFFD.
        """
        ...

    def finish(self) -> str:
        """What was held back: an incomplete character becomes U+FFFD."""
        ...


class Tokenizer(Protocol):
    """Text to token ids and back, for one model.

    Attributes:
        vocab_size: one more than the greatest token id; the model has at least as many embedding rows.
        bos_id: the token that starts a text, or None when the model has none.
        eos_ids: tokens that end an answer.
        chat_template: None when the model has none; then `encode_chat` raises.
        longest: most tokens of a prompt that are of use; None: any number.

    An instance is for one thread at a time.
    """

    vocab_size: int
    bos_id: int | None
    eos_ids: frozenset[int]
    chat_template: ChatTemplate | None
    longest: int | None

    def encode(self, text: str, *, add_bos: bool = True, special: bool = False) -> list[int]:
        """Token ids of `text`.

        Args:
            text: any Unicode text.
            add_bos: start with exactly one BOS if the model wants one (one that `text` itself spells is not
                doubled when `special`); a model that wants none gets none.
            special: parse the texts of control tokens, as in rendered templates; otherwise they stay text.

        Raises:
            InvalidRequest: `text` holds half a surrogate pair or code points reserved by this module.
            PromptTooLong: it has far more tokens than `longest`; not all of it was read to find that out.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; control tokens, and ids that stand for nothing, are skipped."""
        ...

    def detokenizer(self) -> Detokenizer:
        """A fresh detokenizer, for one answer."""
        ...

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a conversation, ready for the assistant's turn; one BOS where one is wanted.

        Raises:
            InvalidRequest: there is no chat template, or it refuses this conversation.
            PromptTooLong: as `encode`.
            TokenizerError: the template itself fails.
        """
        ...

    def encode_after(self, messages: Sequence[Message], answer: int, last: int) -> list[int] | None:
        """Token ids that the template puts behind the text of `messages[answer]`, to the assistant's turn.

        They continue a prompt that ends with that answer as it was generated: nothing is put before them, and
        the turn's end token is left out where the answer has it.

        Args:
            answer: index of an answer.
            last: the last id of the answer as it was generated.

        Returns:
            None when the template does not show the answer once, or what follows depends on its text.

        Raises:
            InvalidRequest: there is no chat template, or it refuses this conversation.
            PromptTooLong: as `encode`.
            TokenizerError: the template itself fails.
        """
        ...
