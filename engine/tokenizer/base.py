"""What tokenizers of every kind share: control tokens in text, the one BOS, chats, and detokenizing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.commands import Message
from engine.errors import InvalidRequest, PromptTooLong
from engine.tokenizer.chat_template import ChatTemplate
from engine.tokenizer.detokenizer import Pieces, StreamDetokenizer, decode_all
from engine.tokenizer.markers import TAG, Markers, check_text

Place = Literal["first", "after token", "inside"]
"""Where a text stands: it starts the prompt, follows a control token, or goes on a text before it."""
_STAND_INS = ("\ufdd3\ufdd4", "\ufdd5 Two lines,\nin words. \ufdd6")
"""Answers that nobody gives, to find what a template puts behind one; unlike each other, so that a template
which looks at the answer is found out."""


_LETTERS = 16
"""For each token that a model can read, as many of a longer text are cut first: few tokens have more."""


_KNOWN = 4
"""Rendered chats that are not cut anew: how a chat begins is looked at in each of its turns, and what was
asked about before a send comes again. A megabyte takes a second or more."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the loader found out about a tokenizer.

    Attributes:
        size: one more than the greatest id.
        controls: the control tokens, parsed in templates only.
        wants_bos: whether the model's texts start with `bos_id`.
        unusable: texts of the control tokens that the model has no embedding row for, by id.
    """

    size: int
    controls: Markers
    bos_id: int | None
    wants_bos: bool
    eos_ids: frozenset[int]
    chat_template: ChatTemplate | None
    unusable: Mapping[int, str]


class MarkerTokenizer(ABC):
    """Implements `Tokenizer` over two ways of encoding that each kind of file brings."""

    def __init__(self, vocabulary: Vocabulary, pieces: Pieces) -> None:
        self.vocab_size = vocabulary.size
        self.bos_id = vocabulary.bos_id
        self.eos_ids = vocabulary.eos_ids
        self.chat_template = vocabulary.chat_template
        self.longest: int | None = None
        self._known: dict[str, list[int]] = {}  # ids of chats that were rendered lately, the latest last
        self._controls = vocabulary.controls
        self._wants_bos = vocabulary.wants_bos
        self._unusable = vocabulary.unusable
        self._pieces = pieces

    @abstractmethod
    def _encode_text(self, text: str, place: Place) -> list[int]:
        """Ids of `text` with control tokens' texts taken as text."""

    @abstractmethod
    def _encode_marked(self, text: str) -> list[int]:
        """Ids of a whole prompt with control tokens' texts parsed."""

    def encode(self, text: str, *, add_bos: bool = True, special: bool = False) -> list[int]:
        """See `Tokenizer.encode`."""
        check_text(text)
        ids = self._cut(text, self._marked if special else lambda text: self._encode_text(text, "first"))
        return self._one_bos(ids) if add_bos else ids

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """See `Tokenizer.encode_chat`.

        Without control tokens' texts in the messages, the ids are those of the whole rendered text. A message
        that spells one ("<|im_end|>" in a question about templates) is rendered with a tag inside that text,
        which tells it from the template's own: the stretch between two of the template's control tokens is
        one text in which nothing is parsed. A person can thus write anything and end no turn with it.
        """
        rendered = self._render([self._guard(message) for message in messages])
        ids = self._known.pop(rendered, None)
        if ids is None:
            goes_on = any(message.role == "assistant" for message in messages)
            encode = self._encode_split if TAG in rendered else self._marked
            ids = self._one_bos(self._cut(rendered, encode, goes_on=goes_on))
        self._known[rendered] = ids  # the last one now
        while len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]
        return list(ids)

    def encode_after(self, messages: Sequence[Message], answer: int, last: int) -> list[int] | None:
        """See `Tokenizer.encode_after`."""
        guarded = [self._guard(message) for message in messages]
        tails = {self._tail(guarded, answer, text) for text in _STAND_INS}
        tail = tails.pop()
        if tails or tail is None:
            return None
        self._check_length(tail, self._encode_split)
        is_control = self._pieces.token_bytes(last) is None
        parts = list(self._controls.split(tail))
        end = next((place for place, part in enumerate(parts) if isinstance(part, int)), None)
        if end is not None and parts[end] == last and not "".join(map(str, parts[:end])).strip():
            parts = parts[end + 1 :]
        return self._encode_parts(parts, "after token" if is_control else "inside")

    def _tail(self, messages: Sequence[Message], answer: int, text: str) -> str | None:
        """What stands behind messages[answer] were its content `text`; None unless that is shown once."""
        while any(text in message.content for message in messages):
            text += text[-1]
        said = [*messages[:answer], Message(messages[answer].role, text), *messages[answer + 1 :]]
        found = self._render(said).split(text)
        return found[1] if len(found) == 2 else None

    def _render(self, messages: Sequence[Message]) -> str:
        if self.chat_template is None:
            raise InvalidRequest(
                "this model has no chat template; send a plain prompt (mlxr generate --raw) instead"
            )
        return self.chat_template.render(messages)

    def _guard(self, message: Message) -> Message:
        check_text(message.role + message.content)
        role, content = (TAG.join(self._controls.break_up(text)) for text in (message.role, message.content))
        return Message(role, content)

    def decode(self, ids: Sequence[int]) -> str:
        """See `Tokenizer.decode`."""
        return decode_all(self._pieces, ids)

    def detokenizer(self) -> StreamDetokenizer:
        """See `Tokenizer.detokenizer`."""
        return StreamDetokenizer(self._pieces)

    def _cut(self, text: str, encode: Callable[[str], list[int]], *, goes_on: bool = False) -> list[int]:
        """Ids of a prompt's text, which `encode` makes, unless there are far too many of them."""
        self._check_length(text, encode, goes_on=goes_on)
        return encode(text)

    def _check_length(self, text: str, encode: Callable[[str], list[int]], *, goes_on: bool = False) -> None:
        """Raises PromptTooLong where the beginning of `text` has twice as many tokens as are of use.

        Cutting all of it, to say how many there are, would take a second for each megabyte. `goes_on`:
        whether it is a chat with answers in it, which another one can take the place of.
        """
        if (most := self.longest) is None or len(text) <= _LETTERS * most:
            return
        if len(encode(text[: _LETTERS * most])) > 2 * most:
            raise PromptTooLong(
                f"the prompt has more than {2 * most:,} tokens and this model's context holds {most:,} "
                f"at most, answer included; shorten it{' or start a new chat' if goes_on else ''}"
            )

    def _marked(self, text: str) -> list[int]:
        return self._usable(self._encode_marked(text))

    def _usable(self, ids: list[int]) -> list[int]:
        if bad := self._unusable.keys() & ids:
            text = self._unusable[bad.pop()]
            raise InvalidRequest(
                f"the prompt has {text!r:.80}, which this model has no embedding for; remove it"
            )
        return ids

    def _encode_split(self, text: str) -> list[int]:
        """Ids of a prompt, control tokens found by us: those with a tag inside are text, less the tag."""
        return self._encode_parts(self._controls.split(text), "first")

    def _encode_parts(self, parts: Iterable[str | int], place: Place) -> list[int]:
        ids: list[int] = []
        for part in parts:
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += self._encode_text(part.replace(TAG, ""), place)
            place = "after token"
        return self._usable(ids)

    def _one_bos(self, ids: list[int]) -> list[int]:
        """`ids` with exactly one BOS in front if the model wants one, and never two."""
        bos = self.bos_id
        if bos is None:
            return ids
        start = 0
        while start < len(ids) and ids[start] == bos:
            start += 1
        return [bos, *ids[start:]] if start or self._wants_bos else ids
