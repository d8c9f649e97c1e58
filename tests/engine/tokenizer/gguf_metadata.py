"""Tokenizers as the metadata of GGUF files, written as llama.cpp's converters write it."""

import json
from collections.abc import Collection
from typing import Any

import sentencepiece
import tokenizers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

NASTY = (
    "family 👨‍👩‍👧‍👦, flags 🇩🇪🇯🇵🏴󠁧󠁢󠁳󠁣󠁴󠁿, skin 👍🏽👍🏿, heart ❤️, keycap 3️⃣, rocket 🚀🚀🚀",
    "e\u0301 a\u0308\u0323 Z\u0351\u036b\u0343 का हिन्दी ไทยภาษา \u1100\u1161\u11a8 각",
    "日本語のテキスト、漢字とｶﾀｶﾅ。你好，世界！한국어 문장입니다. ㄱㄴ 々〆",
    "שלום עולם, מה שלומך? مرحبا بالعالم\u200f، كيف حالك؟ ۱۲۳",
    "def f(x: int) -> str:\n\tif x >= 10:\n        return f\"{x!r:>10}\"  # it's\r\n\n\n    return ''\n",
    "a  b   c    d\t\te \t f\u00a0g\u3000h\u2028i\u2029j\u0085k\n\n \n  \n",
    "   ",
    " leading and trailing ",
    "\n",
    "\r\n\r\n",
    "nul \x00 in \x00\x00 it, \x7f, \x1b[0m, \ufeff, \u200b, \ufffd",
    "I'M you'Re we'LL it'd 'tis 's 'S ’s HTTPServer camelCase XMLHttpRequest ǅungla",
    "1 12 123 1234 12345 1234567890 3.14 1,000,000 ½²³ Ⅻ ٣٤٥ ¼",
    "!? ... --- /// \\\\ ## $% ^&* (()) [[]] {{}} <=> ~` |_| «» “” ‘’ — … ！（）。、",
    "ＦＵＬＬ ｗｉｄｔｈ ﬁ ﬂ Å Å K Ω ẛ̣ ™ ℵ",
    "<s></s><unk> <|im_start|>user\nhi<|im_end|> <|eot_id|><|endoftext|>[INST] <0x41> ▁▁ Ġ Ċ [PAD9]",
    "\U0010ffff\ue000\U000e0001\U0001f3fb",
    "",
)


def pieces_metadata(model: bytes, *, user_defined: Collection[str] = (), **fields: Any) -> dict[str, Any]:
    """A sentencepiece model; its symbols are `user_defined`; `fields` are more of ggml's."""
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    texts = [pieces.id_to_piece(token) for token in range(pieces.get_piece_size())]

    def kind(token: int) -> int:
        if pieces.is_unknown(token):
            return UNKNOWN
        if pieces.is_control(token):
            return CONTROL
        if pieces.is_byte(token):
            return BYTE
        return USER_DEFINED if texts[token] in user_defined else NORMAL

    kinds = [kind(token) for token in range(len(texts))]
    written = [
        text.replace("\u2581", " ") if kind == USER_DEFINED else text
        for text, kind in zip(texts, kinds, strict=True)
    ]
    return with_fields(
        {
            "model": "llama",
            "pre": "default",
            "tokens": written,
            "scores": [pieces.get_score(token) for token in range(len(texts))],
            "token_type": kinds,
            "bos_token_id": pieces.bos_id(),
            "eos_token_id": pieces.eos_id(),
            "unknown_token_id": pieces.unk_id(),
        },
        fields,
    )


def byte_level_metadata(original: tokenizers.Tokenizer, pre: str, **fields: Any) -> dict[str, Any]:
    """A byte-level `tokenizers` object whose cuts are called `pre`."""
    added = original.get_added_tokens_decoder()
    ids = original.get_vocab(with_added_tokens=True)
    texts = sorted(ids, key=ids.__getitem__)
    kinds = [NORMAL] * len(texts)
    for token, entry in added.items():
        kinds[token] = CONTROL if entry.special else USER_DEFINED
    merges = json.loads(original.to_str())["model"]["merges"]
    return with_fields(
        {
            "model": "gpt2",
            "pre": pre,
            "tokens": texts,
            "token_type": kinds,
            "merges": [" ".join(pair) for pair in merges],
        },
        fields,
    )


def with_fields(metadata: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """`metadata` and `fields`, later ones first, under ggml's names; None leaves a field out."""
    named = {f"tokenizer.ggml.{name}": value for name, value in (metadata | fields).items()}
    template = named.pop("tokenizer.ggml.chat_template", None)
    return {"tokenizer.chat_template": template} | {k: v for k, v in named.items() if v is not None}
