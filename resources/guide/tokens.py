"""The guide's tokenizer and chat format: training it, saving it, and turning chats into rows of tokens."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sentencepiece

from resources.guide.corpus import Turn
from resources.guide.recipe import CONTEXT_LENGTH, Rows

BOS, END = "<s>", "<|end|>"
ROLES = {"system": "<|system|>", "user": "<|user|>", "assistant": "<|assistant|>"}
MARKERS = (*ROLES.values(), END)
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('the guide knows the roles system, user and assistant only') }}{% endif %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> bytes:
    """A sentencepiece BPE model, bytes as fallback; markers are symbols that no typed text becomes."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(texts),
        model_writer=model,
        model_type="bpe",
        vocab_size=vocab_size,
        byte_fallback=True,
        control_symbols=list(MARKERS),
        character_coverage=0.9999,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


class ChatTokens:
    """Encodes chats exactly as the chat template does."""

    def __init__(self, model: bytes) -> None:
        """`model` is the content of tokenizer.model."""
        self.pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.bos = self.pieces.bos_id()
        self.end = self.pieces.piece_to_id(END)
        self._roles = {role: self.pieces.piece_to_id(marker) for role, marker in ROLES.items()}

    def plain(self, text: str) -> list[int]:
        """The likeliest pieces of `text`, no markers."""
        return self.pieces.encode(text)

    def varied(self, text: str) -> list[int]:
        """Pieces of `text`, cut at random places, so that unknown words look less strange."""
        return self.pieces.encode(text, enable_sampling=True, alpha=0.1)

    def part(self, role: str, ids: Sequence[int]) -> list[int]:
        """One message with its markers."""
        return [self._roles[role], *ids, self.end]

    def prompt(self, question: str) -> list[int]:
        """A chat of one question, ready for the answer."""
        return [self.bos, *self.part("user", self.plain(question)), self._roles["assistant"]]


@dataclass(frozen=True, slots=True)
class Encoded:
    """Turns as tokens: the question's part, the answer's part, markers included."""

    asked: list[list[int]]
    answered: list[list[int]]
    systems: list[list[int]]


def encode_turns(tokens: ChatTokens, turns: Iterable[Turn], systems: Sequence[str], seed: int) -> Encoded:
    """Questions partly cut at random (seeded), answers always in their likeliest pieces."""
    sentencepiece.set_random_generator_seed(seed)
    draw = np.random.default_rng(seed)
    answers: dict[str, list[int]] = {}
    encoded = Encoded([], [], [tokens.part("system", tokens.plain(text)) for text in systems])
    for turn in turns:
        cut = tokens.varied if draw.random() < 0.4 else tokens.plain
        encoded.asked.append(tokens.part("user", cut(turn.question)))
        if turn.answer not in answers:
            answers[turn.answer] = tokens.part("assistant", tokens.plain(turn.answer))
        encoded.answered.append(answers[turn.answer])
    return encoded


def pack(
    tokens: ChatTokens, encoded: Encoded, rows: Rows, asked_weight: float, draw: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """One batch of random chats.

    Returns:
        ids (rows, length + 1) int32, padded with 0, and the loss weight of each predicted token
        (rows, length) float32: 1 in answers, `asked_weight` in questions, 0 elsewhere.
    """
    ids = np.zeros((rows.count, rows.length + 1), np.int32)
    weights = np.zeros((rows.count, rows.length + 1), np.float32)
    for row in range(rows.count):
        at = 0
        for part, weight in _chat(tokens, encoded, asked_weight, draw):
            if at and at + len(part) > rows.length + 1 and rows.length < 256:
                break
            kept = part[: rows.length + 1 - at]
            ids[row, at : at + len(kept)] = kept
            weights[row, at : at + len(kept)] = weight
            weights[row, at] = 0.0
            at += len(kept)
            if at > rows.length:
                break
    return ids, weights[:, 1:]


def _chat(
    tokens: ChatTokens, encoded: Encoded, asked_weight: float, draw: np.random.Generator
) -> Iterator[tuple[list[int], float]]:
    """The parts of an endless random chat and the weight of each; a part's first token is always given."""
    yield [tokens.bos], 0.0
    if draw.random() < 0.08:
        yield encoded.systems[draw.integers(len(encoded.systems))], 0.0
    while True:
        turn = draw.integers(len(encoded.asked))
        yield encoded.asked[turn], asked_weight
        yield encoded.answered[turn], 1.0


def save_tokenizer(folder: Path, model: bytes) -> None:
    """Write tokenizer.model and tokenizer_config.json."""
    (folder / "tokenizer.model").write_bytes(model)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    special = ("<unk>", BOS, "</s>", *MARKERS)
    config = {
        "tokenizer_class": "LlamaTokenizer",
        "bos_token": BOS,
        "eos_token": END,
        "unk_token": "<unk>",
        "add_bos_token": True,
        "add_eos_token": False,
        "add_prefix_space": False,
        "legacy": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT_LENGTH,
        "chat_template": CHAT_TEMPLATE,
        "added_tokens_decoder": {str(pieces.piece_to_id(text)): _added(text) for text in special},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def _added(text: str) -> dict[str, str | bool]:
    flags = dict.fromkeys(("lstrip", "rstrip", "normalized", "single_word"), False)
    return {"content": text, **flags, "special": True}
