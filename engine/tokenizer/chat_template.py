"""Chat templates: a conversation in, the text the model was trained on out, or one line saying why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import jinja2

from engine.commands import Message
from engine.errors import InvalidRequest, TokenizerError
from engine.tokenizer.budget import Budget, TemplateTooLarge
from engine.tokenizer.sandbox import Refusal, Sandbox

MAX_SECONDS = 2.0
MAX_CHARACTERS = 4_000_000
"""Longest text beyond the messages' own that a template may make, or hold at any moment."""

MAX_SOURCE = 200_000
"""Longest source: several times as long as any model's; compiling takes time that no clock watches."""

# What a template's own Python operations may raise; anything else would be a fault of ours.
_TEMPLATE_FAULTS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


class ChatTemplate:
    """One model's chat template, rendered as Hugging Face transformers renders it, in a sandbox with limits.

    The template sees `messages` (objects with "role" and "content"), `add_generation_prompt`, the named
    tokens (`bos_token`, `eos_token` …), `tools` and `documents` (both none), `raise_exception` and
    `strftime_now`; blocks are trimmed; `tojson` escapes nothing; `break`, `continue` and `{% generation %}`
    work.
    """

    def __init__(
        self,
        source: str,
        named_tokens: Mapping[str, str],
        *,
        origin: str = "chat template",
        now: Callable[[], datetime] = datetime.now,
        max_seconds: float = MAX_SECONDS,
    ) -> None:
        """Compile `source`.

        Args:
            named_tokens: texts by role, such as {"bos_token": "<s>"}.
            origin: the file it is from, for error messages.
            now: the clock behind `strftime_now`.
            max_seconds: a rendering that takes longer is given up.

        Raises:
            TokenizerError: `source` is not a Jinja template.
        """
        self.source = source
        self._origin = origin
        self._named_tokens = dict(named_tokens)
        self._max_seconds = max_seconds
        self._budget = Budget()
        if len(source) > MAX_SOURCE:
            raise TokenizerError(
                f"{origin}: the chat template has {len(source):,} characters; the longest that is read has"
                f" {MAX_SOURCE:,}"
            )
        try:
            self._template = Sandbox(self._budget, now).compile_template(source)
        except (*_TEMPLATE_FAULTS, SyntaxError) as error:  # Jinja writes Python, and may write it wrong
            raise TokenizerError(f"{origin}: the chat template cannot be read: {_one_line(error)}") from error

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> str:
        """The conversation as text; with `add_generation_prompt` it ends where the assistant's turn begins.

        Raises:
            InvalidRequest: there are no messages, or the template refuses them (`raise_exception`).
            TokenizerError: the template fails, tries to leave the sandbox, or takes too much time or memory.
        """
        if not messages:
            raise InvalidRequest("the conversation is empty; send at least one message")
        conversation = [{"role": message.role, "content": message.content} for message in messages]
        own = sum(len(message.content) for message in messages)
        variables: dict[str, object] = {
            **self._named_tokens,
            "messages": conversation,
            "tools": None,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            with self._budget.spend(self._max_seconds, 8 * own + MAX_CHARACTERS):
                return _unicode(self._budget.concat(self._template.generate(variables)))
        except Refusal as error:
            raise InvalidRequest(
                f"the model's chat template refuses this chat: {_one_line(error)}"
            ) from error
        except TemplateTooLarge as error:
            raise self._fault(_one_line(error)) from error
        except jinja2.exceptions.SecurityError as error:
            raise self._fault(f"tries to leave its sandbox: {_one_line(error)}") from error
        except _TEMPLATE_FAULTS as error:
            raise self._fault(f"fails: {_one_line(error)}") from error

    def _fault(self, what: str) -> TokenizerError:
        return TokenizerError(
            f"{self._origin}: the chat template {what}; mend it, or send a plain prompt (mlxr generate --raw)"
        )


def _unicode(text: str) -> str:
    """`text`. Raises ValueError when it holds half a surrogate pair, which no tokenizer can take."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it makes half a surrogate pair") from None
    return text


def _one_line(error: BaseException, limit: int = 300) -> str:
    """The error's own words on one line, without what steers terminals; its kind when it has none."""
    printed = "".join(char if char.isprintable() else " " for char in str(error))
    text = " ".join(printed.split()) or type(error).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"
