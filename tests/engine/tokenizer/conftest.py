"""Small real tokenizers, trained here and written to disk in Hugging Face form."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = (
    "The quick brown fox jumps over the lazy dog. It's a fox's life, isn't it?",
    "def main(argv: list[str]) -> int:\n    if not argv:\n        return 1\n\n    return 0\n",
    "naïve café, über, e\u0301 as a letter with a combining mark, ångström",
    "日本語のテキストと漢字、かな。你好，世界！한국어 문장입니다.",
    "שלום עולם, מה שלומך? مرحبا بالعالم، كيف حالك؟",
    "family 👨‍👩‍👧‍👦 flag 🇩🇪 skin 👍🏽 heart ❤️ rocket 🚀🚀🚀",
    "  two  spaces   three\t\ttabs\r\n\r\n\nand lines\n",
    "1234567890 3.14159 1,000,000 2^64 = 18446744073709551616",
    "\u200bzero\u200dwidth\ufeff and \x00 nul \x7f",
    "ＦＵＬＬ ｗｉｄｔｈ ﬁ ligature ½ ² ™",
    "a",
    " ",
    "\n",
    "",
)
CORPUS = [text for text in TEXTS if text.strip()] * 8

LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

WriteJson = Callable[[Path, str, object], None]


@pytest.fixture(scope="session")
def texts() -> tuple[str, ...]:
    return TEXTS


def write_json(folder: Path, name: str, value: object) -> None:
    (folder / name).write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


@pytest.fixture(name="write_json", scope="session")
def write_json_fixture() -> WriteJson:
    return write_json


def train_pieces(**options: object) -> bytes:
    model = io.BytesIO()
    settings: dict[str, object] = {
        "model_type": "bpe",
        "vocab_size": 480,
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "minloglevel": 2,
        "num_threads": 1,
    }
    # Not all of the texts: characters that the model has not seen go through its bytes.
    corpus = [line for text in TEXTS[:4] for line in text.splitlines() if line] * 8
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=model, **(settings | options)
    )
    return model.getvalue()


@pytest.fixture(scope="session")
def pieces() -> bytes:
    """A model as Llama 2 has it: BPE, byte fallback, a space put before a text, nothing normalised."""
    return train_pieces()


@pytest.fixture(scope="session")
def unigram_pieces() -> bytes:
    """A model with scores, whose chat markers are pieces of its own."""
    markers = ["<|user|>", "<|assistant|>", "<|end|>"]
    return train_pieces(model_type="unigram", vocab_size=350, user_defined_symbols=markers)


@pytest.fixture(scope="session")
def squeezing_pieces() -> bytes:
    """A model with the trainer's own defaults: runs of spaces become one."""
    return train_pieces(remove_extra_whitespaces=True, normalization_rule_name="nmt_nfkc")


def byte_level(
    special: list[str], normalizer: normalizers.Normalizer | None, split: str
) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE(ignore_merges=True))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in special])
    return tokenizer


@pytest.fixture(scope="session")
def llama3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Llama 3: byte-level BPE that takes whole words, BOS from the post-processor."""
    folder = tmp_path_factory.mktemp("llama3")
    special = [
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
    ]
    tokenizer = byte_level(special, None, LLAMA3_SPLIT)
    bos = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single="<|begin_of_text|> $A",
                pair="<|begin_of_text|> $A <|begin_of_text|> $B",
                special_tokens=[("<|begin_of_text|>", bos)],
            ),
        ]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(
        folder,
        "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<|begin_of_text|>",
            "eos_token": "<|end_of_text|>",
            "clean_up_tokenization_spaces": True,
            "chat_template": "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}"
            "<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}",
        },
    )
    return folder


@pytest.fixture(scope="session")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Qwen 3: byte-level BPE after NFC, no BOS, some added tokens that are no control tokens."""
    folder = tmp_path_factory.mktemp("qwen")
    tokenizer = byte_level(["<|endoftext|>", "<|im_start|>", "<|im_end|>"], normalizers.NFC(), LLAMA3_SPLIT)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ("<think>", "</think>")])
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(
        folder,
        "tokenizer_config.json",
        {
            "tokenizer_class": "Qwen2Tokenizer",
            "add_bos_token": False,
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "chat_template": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
            "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        },
    )
    return folder


def save_llama2(folder: Path, pieces: bytes) -> tokenizers.Tokenizer:
    """Write `pieces` as a tokenizer.json as Llama 2's was: BPE with byte fallback, spaces as U+2581."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=pieces)
    ids = range(processor.get_piece_size())
    vocab = {processor.id_to_piece(i): i for i in ids}
    merges = [
        (left, right)
        for piece in sorted(vocab, key=vocab.__getitem__)
        if not processor.is_byte(vocab[piece])
        for left, right in ((piece[:cut], piece[cut:]) for cut in range(1, len(piece)))
        if left in vocab and right in vocab
    ]
    tokenizer = tokenizers.Tokenizer(
        models.BPE(vocab, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    )
    tokenizer.add_special_tokens(
        [AddedToken(text, normalized=False, special=True) for text in ("<unk>", "<s>", "</s>")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", vocab["<s>"])]
    )
    write_json(
        folder,
        "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "chat_template": "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] "
            "{{ m.content }} [/INST]{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}",
        },
    )
    return tokenizer


@pytest.fixture(scope="session")
def llama2(tmp_path_factory: pytest.TempPathFactory, pieces: bytes) -> Path:
    """As newer conversions of Llama 2: a space put before the prompt's first text only."""
    folder = tmp_path_factory.mktemp("llama2")
    tokenizer = save_llama2(folder, pieces)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="session")
def tinyllama(tmp_path_factory: pytest.TempPathFactory, pieces: bytes) -> Path:
    """As TinyLlama: the normaliser puts a space before every text between control tokens."""
    folder = tmp_path_factory.mktemp("tinyllama")
    tokenizer = save_llama2(folder, pieces)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="session")
def unigram(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer.json with scores, decoded by "Metaspace"."""
    folder = tmp_path_factory.mktemp("unigram")
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(
        folder,
        "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "</s>",
            "chat_template": "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}",
        },
    )
    return folder


@pytest.fixture(params=["llama3", "qwen", "llama2", "tinyllama", "unigram"])
def json_folder(request: pytest.FixtureRequest) -> Path:
    """Each kind of tokenizer.json in turn."""
    return request.getfixturevalue(request.param)
