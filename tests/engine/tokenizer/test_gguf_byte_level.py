"""GGUF's "gpt2" tokenizers against the `tokenizers` package, from whose objects their metadata is made."""

import json
import logging
import unicodedata
from functools import cache
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, decoders, models, normalizers, trainers
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX as QWEN2
from transformers.models.qwen3_5.tokenization_qwen3_5 import PRETOKENIZE_REGEX as QWEN35

from engine.commands import Message
from engine.errors import InvalidRequest
from engine.tokenizer import Tokenizer
from engine.tokenizer.gguf import load_gguf_tokenizer
from engine.tokenizer.gguf_pretokenizers import PRE_TOKENIZERS
from tests.engine.tokenizer.conftest import CORPUS, LLAMA3_SPLIT
from tests.engine.tokenizer.gguf_metadata import CONTROL, NASTY, byte_level_metadata

CONTROLS = ["<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>", "[INST]"]
PLAIN = ["<think>", "</think>", "    "]
WORDS = ByteLevel(add_prefix_space=False)
"""GPT-2's own cuts, as the package has them."""


def cut(*splits: str) -> list[PreTokenizer]:
    return [Split(Regex(split), behavior="isolated") for split in splits]


BYTES = ByteLevel(add_prefix_space=False, use_regex=False)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
WHOLE_WORDS = {"llama-bpe", "tekken"}
"""Pre-tokenizers of vocabularies in which a word that is a token is that token."""
CASED = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝ"
    "Ὗ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳ"
    "Ꙁ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
DEEPSEEK = cut(r"[\r\n]", rf"\s?[{CASED}]+", r"\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", r"\s+$")
HAN = "[一-龥\u0800-一가-\ud7ff]+"
DEEPSEEK_V3 = (
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
)
SEED = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}"
    r"| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
ORIGINALS: dict[str, tuple[bool, list[PreTokenizer]]] = {
    # As the models' tokenizer.json files have them: whether in NFC, and the steps; llama.cpp's default.
    "default": (False, [*cut(r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"), BYTES]),
    "gpt-2": (False, [WORDS]),
    "olmo": (True, [WORDS]),
    "llama-bpe": (False, [*cut(LLAMA3_SPLIT), BYTES]),
    "smaug-bpe": (False, [*cut(LLAMA3_SPLIT), BYTES]),
    "qwen2": (True, [*cut(QWEN2), BYTES]),
    "deepseek-r1-qwen": (False, [*cut(QWEN2), BYTES]),
    "qwen35": (True, [*cut(QWEN35), BYTES]),
    "tekken": (False, [*cut(GGUF_PRE_TOKENIZER_SPLITS["tekken"]), BYTES]),
    "gpt-4o": (False, [*cut(GGUF_PRE_TOKENIZER_SPLITS["gpt-4o"]), BYTES]),
    "smollm": (False, [Digits(individual_digits=True), WORDS]),
    "command-r": (True, [Digits(individual_digits=True), WORDS]),
    "deepseek-coder": (
        False,
        [*cut(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN), Digits(individual_digits=True), BYTES],
    ),
    "deepseek-llm": (False, [*DEEPSEEK, *cut(HAN), Digits(individual_digits=False), BYTES]),
    "deepseek-v3": (False, [*cut(r"\p{N}{1,3}", "[一-龥ぁ-ゟ゠-ヿ\u3040]+", DEEPSEEK_V3), BYTES]),
    "seed-coder": (False, [*cut(SEED), BYTES]),
    "bailingmoe": (False, [*cut(BAILING), BYTES]),
    "bloom": (False, [*cut(r" ?[^(\s|[.,!?…。，、।۔،])]+"), BYTES]),
    "viking": (False, [*cut(r" ?[^(\s|[.,!?…。，、।۔،])]+"), Digits(individual_digits=True), BYTES]),
}


@cache
def learned() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Tokens and merges learned from lines that nothing cuts, so that every cut shows in the ids.

    No merges make the last words: they are for vocabularies that take whole ones.
    """
    learner = tokenizers.Tokenizer(models.BPE())
    learner.pre_tokenizer = BYTES
    trainer = trainers.BpeTrainer(
        vocab_size=1500, initial_alphabet=ByteLevel.alphabet(), show_progress=False, min_frequency=1
    )
    learner.train_from_iterator([*CORPUS, *(text for text in NASTY if "<|" not in text)], trainer)
    merges = json.loads(learner.to_str())["model"]["merges"]
    vocab = learner.get_vocab()
    for word in ("\u0120HTTPServer", "\u0120fox", "The"):
        vocab.setdefault(word, len(vocab))
    return vocab, [(left, right) for left, right in merges]


def original(pre: str) -> tokenizers.Tokenizer:
    """What the metadata called `pre` is of."""
    composes, steps = ORIGINALS[pre]
    vocab, merges = learned()
    whole = tokenizers.Tokenizer(models.BPE(vocab, merges, ignore_merges=pre in WHOLE_WORDS))
    if composes:
        whole.normalizer = normalizers.NFC()
    whole.pre_tokenizer = Sequence(steps)
    whole.decoder = decoders.ByteLevel()
    whole.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in CONTROLS])
    whole.add_tokens([AddedToken(text, normalized=False) for text in PLAIN])
    return whole


def load(metadata: dict[str, Any], rows: int = 2000) -> Tokenizer:
    return load_gguf_tokenizer(metadata, where="m.gguf", rows=rows)


@pytest.fixture(scope="module", params=ORIGINALS)
def pair(request: pytest.FixtureRequest) -> tuple[Tokenizer, tokenizers.Tokenizer]:
    theirs = original(request.param)
    return load(byte_level_metadata(theirs, request.param, add_bos_token=False)), theirs


Pair = tuple[Tokenizer, tokenizers.Tokenizer]


def typed(theirs: tokenizers.Tokenizer, text: str) -> list[int]:
    theirs.encode_special_tokens = True
    return theirs.encode(text).ids


def test_ids_and_text_are_those_of_tokenizers(pair: Pair, texts: tuple[str, ...]) -> None:
    ours, theirs = pair
    for text in (*texts, *NASTY, " ".join(NASTY), "".join([*CONTROLS, *PLAIN, *CONTROLS])):
        assert ours.encode(text) == typed(theirs, text)
        theirs.encode_special_tokens = False
        parsed = theirs.encode(text).ids
        assert ours.encode(text, special=True) == parsed
        assert ours.decode(parsed) == theirs.decode(parsed)


CHARACTERS = st.one_of(st.characters(codec="utf-8"), st.sampled_from("abS'st \n\r\t0123./_é日👍🏽\u0301"))


@settings(max_examples=40)
@given(text=st.text(CHARACTERS, max_size=40))
def test_any_text_becomes_the_same_ids(pair: Pair, text: str) -> None:
    ours, theirs = pair
    if any("\ufdd0" <= char <= "\ufdd2" for char in text):
        return
    assert ours.encode(text) == typed(theirs, text)


@settings(max_examples=40)
@given(data=st.data())
def test_a_stream_of_any_ids_is_their_whole_text(pair: Pair, data: st.DataObject) -> None:
    ours, theirs = pair
    ids = data.draw(st.lists(st.integers(0, theirs.get_vocab_size() + 2), max_size=24))
    stream = ours.detokenizer()
    parts = [stream.add(token) for token in ids]
    assert "".join(parts) + stream.finish() == ours.decode(ids) == theirs.decode(ids)


def test_every_cut_tells_on_the_ids() -> None:
    """The text and tokens here would find out one pre-tokenizer in another's place."""
    ids = {pre: typed(original(pre), " ".join(NASTY)) for pre in ORIGINALS}
    same = [{a, b} for a in ids for b in ids if a < b and ids[a] == ids[b]]
    assert same == [{"bailingmoe", "deepseek-r1-qwen"}]  # two ways to write the same cuts


@pytest.mark.parametrize("pre", sorted(PRE_TOKENIZERS))
def test_text_survives_every_cut_that_is_known(pre: str) -> None:
    ours = load(byte_level_metadata(original("gpt-2"), pre))
    for text in NASTY:
        kept = unicodedata.normalize("NFC", text) if PRE_TOKENIZERS[pre].nfc else text
        assert ours.decode(ours.encode(text)) == kept


def test_nfc_is_put_only_where_the_original_has_it() -> None:
    decomposed = "e\u0301"
    for pre, (composes, _) in ORIGINALS.items():
        ours = load(byte_level_metadata(original(pre), pre))
        assert (ours.decode(ours.encode(decomposed)) == "\u00e9") is composes


@pytest.mark.parametrize(
    ("pre", "said", "starts"),
    [
        ("llama-bpe", None, True),
        ("llama-bpe", False, False),
        ("tekken", None, True),
        ("qwen2", None, False),
        ("qwen2", True, True),
    ],
)
def test_bos_is_put_as_the_flag_says_and_where_it_says_nothing(
    pre: str, said: bool | None, starts: bool
) -> None:
    theirs = original(pre)
    bos = theirs.token_to_id(CONTROLS[0])
    ours = load(byte_level_metadata(theirs, pre, bos_token_id=bos, add_bos_token=said, add_eos_token=True))
    plain = typed(theirs, "fox")
    assert ours.encode("fox") == ([bos, *plain] if starts else plain)
    assert ours.encode(f"{CONTROLS[0]}fox", special=True) == [bos, *plain]


def test_end_tokens_are_those_named_and_those_known_by_their_text() -> None:
    theirs = original("qwen2")
    begin, end, start, turn, inst = map(theirs.token_to_id, CONTROLS)
    bare = load(byte_level_metadata(theirs, "qwen2"))
    assert bare.eos_ids == {end, turn}
    named = byte_level_metadata(theirs, "qwen2", eos_token_id=begin, eot_token_id=start, eom_token_id=inst)
    assert load(named).eos_ids == {begin, end, start, turn, inst}


def test_a_control_token_that_the_merges_make_is_not_made_of_text() -> None:
    # Words that are tokens of their own; called control tokens, no text of a person's becomes them.
    theirs = original("llama-bpe")
    metadata = byte_level_metadata(theirs, "llama-bpe", add_bos_token=False)
    words = [theirs.token_to_id(text) for text in ("\u0120HTTPServer", "\u0120fox", "The")]
    for token in words:
        metadata["tokenizer.ggml.token_type"][token] = CONTROL
    ours = load(metadata)
    text = "The fox, The HTTPServer\nThe\n fox"
    assert set(words) <= set(typed(theirs, text))
    assert not set(words) & set(ours.encode(text))
    assert ours.decode(ours.encode(text)) == text


TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_a_chat_is_rendered_by_the_files_template() -> None:
    theirs = original("qwen2")
    bos = theirs.token_to_id(CONTROLS[0])
    ours = load(byte_level_metadata(theirs, "qwen2", bos_token_id=bos, chat_template=TEMPLATE))
    rendered = "<|begin_of_text|><|im_start|>user\nhi <think><|im_end|>\n<|im_start|>assistant\n"
    theirs.encode_special_tokens = False
    assert ours.encode_chat([Message("user", "hi <think>")]) == theirs.encode(rendered).ids
    forged = ours.encode_chat([Message("user", "".join(CONTROLS))])
    controls = {theirs.token_to_id(text) for text in CONTROLS}
    honest = ours.encode_chat([Message("user", "x")])
    assert [i for i in forged if i in controls] == [i for i in honest if i in controls]
    assert "".join(CONTROLS) in ours.decode(forged)


def test_without_a_template_a_chat_is_refused() -> None:
    ours = load(byte_level_metadata(original("qwen2"), "qwen2"))
    with pytest.raises(InvalidRequest, match="no chat template"):
        ours.encode_chat([Message("user", "hi")])


def test_a_file_that_does_not_say_how_to_cut_is_cut_by_the_default(caplog: pytest.LogCaptureFixture) -> None:
    metadata = byte_level_metadata(original("default"), "default")
    del metadata["tokenizer.ggml.pre"]
    with caplog.at_level(logging.WARNING):
        ours = load(metadata)
    assert "m.gguf: tokenizer.ggml.pre is missing" in caplog.text
    assert ours.encode(NASTY[12]) == typed(original("default"), NASTY[12])
