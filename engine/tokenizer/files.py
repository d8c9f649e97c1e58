"""The small JSON files around a tokenizer: read once, checked, and turned into one value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from engine.errors import TokenizerError
from engine.loading.small_files import read_bytes, read_object
from engine.tokenizer.markers import AddedToken

NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """What the folder says beside the vocabulary itself.

    Attributes:
        added: tokens of `added_tokens_decoder`, else of added_tokens.json.
        named: texts of the tokens that have a role, such as {"bos_token": "<s>"}.
        extra_special: texts of further control tokens.
        add_bos: whether a text starts with BOS; None when not said.
        legacy: sentencepiece: a text after a control token gets a leading space as if it were a text's start.
        prefix_space: sentencepiece: False keeps the model from putting a space before a text.
        eos_ids: end tokens of generation_config.json.
        template: the chat template's source and the path of the file it is from, or None.
    """

    added: tuple[AddedToken, ...]
    named: dict[str, str]
    extra_special: frozenset[str]
    add_bos: bool | None
    legacy: bool
    prefix_space: bool
    eos_ids: frozenset[int]
    template: tuple[str, str] | None


def read_files(folder: Path) -> TokenizerFiles:
    """Read what is there of the folder's JSON files; each is optional.

    Raises TokenizerError, naming the file, for one that is broken.
    """
    config = _read_object(folder / "tokenizer_config.json")
    named_map = _read_object(folder / "special_tokens_map.json")
    generation = _read_object(folder / "generation_config.json")
    return TokenizerFiles(
        added=_added_tokens(folder, config),
        named={**_named(named_map), **_named(config)},
        extra_special=_extra_special(named_map) | _extra_special(config),
        add_bos=_optional_bool(config, "add_bos_token"),
        legacy=_optional_bool(config, "legacy") or False,
        prefix_space=_optional_bool(config, "add_prefix_space") is not False,
        eos_ids=frozenset(_ids(generation.get("eos_token_id"), "generation_config.json: eos_token_id")),
        template=_template(folder, config),
    )


def _read_object(path: Path) -> dict[str, object]:
    """The JSON object in `path`; empty when there is no such file."""
    try:
        return read_object(path, TokenizerError)
    except FileNotFoundError:
        return {}


def _token_text(value: object) -> str | None:
    """The text of a token given as a string or as an object with "content"."""
    if isinstance(value, dict):
        value = cast("dict[str, object]", value).get("content")
    return value if isinstance(value, str) else None


def _named(config: dict[str, object]) -> dict[str, str]:
    texts = {name: _token_text(config.get(name)) for name in NAMED_TOKENS}
    return {name: text for name, text in texts.items() if text}


def _extra_special(config: dict[str, object]) -> frozenset[str]:
    values = config.get("additional_special_tokens") or config.get("extra_special_tokens")
    if isinstance(values, dict):
        values = list(cast("dict[str, object]", values).values())
    if not isinstance(values, list):
        return frozenset()
    texts = map(_token_text, cast("list[object]", values))
    return frozenset(text for text in texts if text)


def _optional_bool(config: dict[str, object], name: str) -> bool | None:
    value = config.get(name)
    if value is None or isinstance(value, bool):
        return value
    raise TokenizerError(f"tokenizer_config.json: {name} is {value!r:.80}; it must be true or false")


def _ids(value: object, where: str) -> list[int]:
    """Token ids given as null, a number or a list of numbers."""
    values: list[object] = (
        [] if value is None else cast("list[object]", value) if isinstance(value, list) else [value]
    )
    ids: list[int] = []
    for item in values:
        if isinstance(item, bool) or not isinstance(item, int) or item < 0:
            raise TokenizerError(f"{where} is {value!r:.80}; it must be a token id or a list of them")
        ids.append(item)
    return ids


def _added_tokens(folder: Path, config: dict[str, object]) -> tuple[AddedToken, ...]:
    decoder = config.get("added_tokens_decoder")
    if isinstance(decoder, dict):
        entries = cast("dict[str, object]", decoder).items()
        return _without_twins([_added_token(key, value) for key, value in entries])
    listed = _read_object(folder / "added_tokens.json")
    tokens: list[AddedToken] = []
    for text, value in listed.items():
        (token_id,) = _ids([value], f"{folder / 'added_tokens.json'}: {text!r:.80}")
        tokens.append(AddedToken(text, token_id, special=is_control_shaped(text)))
    return _without_twins(tokens)


def _added_token(key: str, value: object) -> AddedToken:
    text = _token_text(value)
    if not key.isdecimal() or len(key) > 10 or not text or not isinstance(value, dict):
        raise TokenizerError(f"tokenizer_config.json: added_tokens_decoder entry {key!r:.80} is not a token")
    flags = cast("dict[str, object]", value)
    return AddedToken(
        text,
        int(key),
        special=flags.get("special") is True,
        lstrip=flags.get("lstrip") is True,
        rstrip=flags.get("rstrip") is True,
    )


def is_control_shaped(text: str) -> bool:
    """Whether `text` is written as chats' control tokens are: "<|…|>". Asked where no file tells."""
    return len(text) > 4 and text.startswith("<|") and text.endswith("|>")


def _without_twins(tokens: Iterable[AddedToken]) -> tuple[AddedToken, ...]:
    """The tokens in the order of their ids. Raises TokenizerError when two share a text or an id."""
    ordered = sorted(tokens, key=lambda token: token.id)
    for field in ("id", "text"):
        seen: dict[object, AddedToken] = {}
        for token in ordered:
            twin = seen.setdefault(getattr(token, field), token)
            if twin is not token:
                raise TokenizerError(
                    f"added tokens {twin.text!r:.80} ({twin.id}) and {token.text!r:.80} ({token.id}) clash"
                )
    return tuple(ordered)


def _template(folder: Path, config: dict[str, object]) -> tuple[str, str] | None:
    """The chat template, in Hugging Face's order: its own file, the tokenizer's, the older JSON file."""
    own = folder / "chat_template.jinja"
    if own.is_file():
        try:
            return read_bytes(own, TokenizerError).decode(), str(own)
        except UnicodeDecodeError as error:
            raise TokenizerError(f"{own} cannot be read ({error}); download it again") from error
    older = _read_object(folder / "chat_template.json")
    for name, source in (("tokenizer_config.json", config), ("chat_template.json", older)):
        value = source.get("chat_template")
        if value is not None:
            return _choose_template(value, name), str(folder / name)
    return None


def _choose_template(value: object, name: str) -> str:
    """The template in a string or a list of {"name", "template"}: "default", or the only one."""
    if isinstance(value, str):
        return value
    templates: dict[str, object] = {}
    if isinstance(value, list):
        for item in cast("list[object]", value):
            entry = cast("dict[str, object]", item) if isinstance(item, dict) else {}
            templates[str(entry.get("name"))] = entry.get("template")
    chosen = templates.get("default", next(iter(templates.values())) if len(templates) == 1 else None)
    if not isinstance(chosen, str):
        raise TokenizerError(f'{name}: chat_template is neither a text nor a list with one called "default"')
    return chosen
