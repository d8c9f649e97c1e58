"""How a GGUF file's byte-level vocabulary cuts text into words: what each `tokenizer.ggml.pre` stands for.

Names, expressions and flags: llama.cpp's src/llama-vocab.cpp, with the expressions as the models' own
tokenizer.json files have them where that file quotes them. Normalisers are of those tokenizer.json files,
as Hugging Face transformers' tokenizer classes give them; llama.cpp applies none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tokenizers import Regex, normalizers, pre_tokenizers

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_REST}"
_QWEN35 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED_WORDS = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{{end}}|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{{end}}"
    r"|\p{N}{digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_TEKKEN = _CASED_WORDS.replace("{end}", "").replace("{digits}", "")
_GPT4O = _CASED_WORDS.replace("{end}", f"{_CONTRACTION}?").replace("{digits}", "{1,3}")
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
_SEED = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_HAN_AND_KANA = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
# Letters that have case, as DeepSeek LLM lists them: hexadecimal code points and ranges.
_CASED = (
    "41-5a 61-7a b5 c0-d6 d8-f6 f8-1ba 1bc-1bf 1c4-293 295-2af 370-373 376 377 37b-37d 37f 386 388-38a 38c"
    " 38e-3a1 3a3-3f5 3f7-481 48a-52f 531-556 10a0-10c5 13a0-13f5 13f8-13fd 1c90-1cba 1cbd-1cbf 1d00-1d2b"
    " 1d6b-1d77 1d79-1d9a 1e00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d"
    " 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 1fc6-1fcc 1fd0-1fd3 1fd6-1fdb 1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2102"
    " 2107 210a-2113 2115 2119-211d 2124 2126 2128 212a-212d 212f-2134 2139 213c-213f 2145-2149 214e 2183"
    " 2184 2c00-2c7b 2c7e-2ce4 2ceb-2cee 2cf2 2cf3 a640-a66d a680-a69b a722-a76f a771-a787 a78b-a78e"
    " ab70-abbf fb00-fb06 fb13-fb17 ff21-ff3a ff41-ff5a 10400-1044f 104b0-104d3 104d8-104fb 10c80-10cb2"
    " 10cc0-10cf2 118a0-118df 1e900-1e943"
)


def _char_class(ranges: str) -> str:
    return "".join("-".join(rf"\x{{{bound}}}" for bound in part.split("-")) for part in ranges.split())


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """What one name stands for.

    Attributes:
        splits: expressions applied in turn; what one matches, and what is between, the next cuts further.
        ignore_merges: a word that is a token is that token, whatever the merges would make of it.
        add_bos: whether texts start with BOS where the file does not say.
        nfc: text is put into Unicode's composed form first.
    """

    splits: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False
    nfc: bool = False

    def steps(self) -> pre_tokenizers.PreTokenizer:
        """The `tokenizers` object; after the cuts, bytes are written in GPT-2's alphabet."""
        cuts: list[pre_tokenizers.PreTokenizer] = [
            pre_tokenizers.Split(Regex(split), behavior="isolated") for split in self.splits
        ]
        return pre_tokenizers.Sequence(
            [*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )

    def normalizer(self) -> normalizers.Normalizer | None:
        """The `tokenizers` object, if text is changed at all."""
        return normalizers.NFC() if self.nfc else None


def _named(names: str, pre_tokenizer: PreTokenizer) -> Iterable[tuple[str, PreTokenizer]]:
    return ((name, pre_tokenizer) for name in names.split())


PRE_TOKENIZERS: dict[str, PreTokenizer] = dict(
    [
        *_named("default", PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"))),
        *_named("gpt-2 phi-2 exaone4 mellum trillion a.x-4.0", PreTokenizer((_GPT2,))),
        *_named("mpt olmo", PreTokenizer((_GPT2,), nfc=True)),
        *_named(
            "llama3 llama-v3 llama-bpe falcon3 pixtral midm-2.0",
            PreTokenizer((_LLAMA3,), ignore_merges=True, add_bos=True),
        ),
        *_named("dbrx smaug-bpe glm4 chatglm-bpe", PreTokenizer((_LLAMA3,))),
        *_named("qwen2", PreTokenizer((_QWEN2,), nfc=True)),
        *_named("deepseek-r1-qwen kormo megrez hunyuan stablelm2", PreTokenizer((_QWEN2,))),
        *_named("qwen35", PreTokenizer((_QWEN35,), nfc=True)),
        *_named("tekken", PreTokenizer((_TEKKEN,), ignore_merges=True, add_bos=True)),
        *_named("gpt-4o llama4 kanana2 minimax-m2", PreTokenizer((_GPT4O,))),
        *_named("starcoder refact smollm codeshell exaone minerva-7b", PreTokenizer((r"\p{N}", _GPT2))),
        *_named("command-r", PreTokenizer((r"\p{N}", _GPT2), nfc=True)),
        *_named(
            "deepseek-llm",
            PreTokenizer(
                (
                    r"[\r\n]",
                    rf"\s?[{_char_class(_CASED)}]+",
                    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
                    r"\s+$",
                    _CJK,
                    r"\p{N}+",
                )
            ),
        ),
        *_named("deepseek-coder", PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}"))),
        *_named("deepseek-v3 hunyuan-dense", PreTokenizer((r"\p{N}{1,3}", _HAN_AND_KANA, _DEEPSEEK3))),
        *_named("bailingmoe bailingmoe2 llada-moe", PreTokenizer((_BAILING,))),
        *_named("seed-coder", PreTokenizer((_SEED,))),
        *_named("poro-chat bloom gpt3-finnish", PreTokenizer((_BLOOM,))),
        *_named("viking", PreTokenizer((_BLOOM, r"\p{N}"))),
    ]
)
"""By the name that the file gives."""
