"""What the names of quantisations mean: the tensor types in them, bits, and quality in a few words.

Which types a name stands for: llama.cpp's llama-quant.cpp; bits with scales: ggml-common.h. The words follow
the divergence from the unquantised model that llama.cpp's users measured for Mistral 7B (Kullback-Leibler,
median: Q2_K 0.059, Q3_K_M 0.017, Q4_K_M 0.0075, Q5_K_M 0.0023 and Q6_K below 0.001).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LOSSLESS = "as trained"
NEAR = "hardly told from the original"
GOOD = "very good"
BALANCED = "good: the usual balance of size and quality"
FAIR = "fair: mistakes show"
POOR = "poor: for lack of memory only"
WORST = "very poor"


@dataclass(frozen=True, slots=True)
class Quantization:
    """One way to store weights in a GGUF file.

    Attributes:
        name: as files are called, "Q4_K_M".
        types: of its tensors, the one with most weights first.
        bits: per weight on average, scales included, for a model of 7 billion weights or more.
        hint: quality in a few words.
    """

    name: str
    types: tuple[str, ...]
    bits: float
    hint: str


_TABLE = (
    Quantization("F32", ("F32",), 32, LOSSLESS),
    Quantization("F16", ("F16",), 16, LOSSLESS),
    Quantization("BF16", ("BF16",), 16, LOSSLESS),
    Quantization("Q8_0", ("Q8_0",), 8.5, NEAR),
    Quantization("Q6_K", ("Q6_K",), 6.56, NEAR),
    Quantization("Q5_K_M", ("Q5_K", "Q6_K"), 5.69, GOOD),
    Quantization("Q5_K_S", ("Q5_K", "Q6_K"), 5.54, GOOD),
    Quantization("Q5_1", ("Q5_1", "Q6_K"), 6.0, GOOD),
    Quantization("Q5_0", ("Q5_0", "Q6_K"), 5.54, GOOD),
    Quantization("Q4_K_M", ("Q4_K", "Q6_K"), 4.85, BALANCED),
    Quantization("Q4_K_S", ("Q4_K", "Q6_K"), 4.58, BALANCED),
    Quantization("Q4_1", ("Q4_1", "Q6_K"), 5.1, BALANCED),
    Quantization("Q4_0", ("Q4_0", "Q6_K"), 4.55, BALANCED),
    Quantization("IQ4_NL", ("IQ4_NL", "Q6_K"), 4.56, BALANCED),
    Quantization("IQ4_XS", ("IQ4_XS", "Q6_K"), 4.3, BALANCED),
    Quantization("MXFP4", ("MXFP4", "Q8_0"), 4.4, BALANCED),
    Quantization("Q3_K_L", ("Q3_K", "Q5_K", "Q6_K"), 4.27, FAIR),
    Quantization("Q3_K_M", ("Q3_K", "Q4_K", "Q6_K"), 3.91, FAIR),
    Quantization("Q3_K_S", ("Q3_K", "Q6_K"), 3.5, POOR),
    Quantization("Q2_K", ("Q2_K", "Q3_K", "Q6_K"), 3.0, POOR),
    Quantization("Q2_K_S", ("Q2_K", "Q4_K", "Q6_K"), 2.8, POOR),
    Quantization("IQ3_M", ("IQ3_S", "Q4_K"), 3.7, FAIR),
    Quantization("IQ3_S", ("IQ3_S", "Q4_K"), 3.5, FAIR),
    Quantization("IQ3_XS", ("IQ3_S", "IQ3_XXS"), 3.3, POOR),
    Quantization("IQ3_XXS", ("IQ3_XXS", "IQ3_S"), 3.2, POOR),
    Quantization("IQ2_M", ("IQ2_S", "IQ3_S"), 2.75, POOR),
    Quantization("IQ2_S", ("IQ2_S", "IQ3_S"), 2.5, WORST),
    Quantization("IQ2_XS", ("IQ2_XS", "Q4_K"), 2.4, WORST),
    Quantization("IQ2_XXS", ("IQ2_XXS", "Q2_K"), 2.1, WORST),
    Quantization("IQ1_M", ("IQ1_M", "Q2_K"), 1.9, WORST),
    Quantization("IQ1_S", ("IQ1_S", "Q2_K"), 1.7, WORST),
    Quantization("TQ2_0", ("TQ2_0", "Q6_K"), 2.1, "for models trained to three values"),
    Quantization("TQ1_0", ("TQ1_0", "Q6_K"), 1.7, "for models trained to three values"),
    Quantization("NVFP4", ("NVFP4",), 4.5, BALANCED),
    Quantization("Q4_0_4_4", ("Q4_0_4_4",), 4.55, BALANCED),
    Quantization("Q4_0_4_8", ("Q4_0_4_8",), 4.55, BALANCED),
    Quantization("Q4_0_8_8", ("Q4_0_8_8",), 4.55, BALANCED),
)

_BY_NAME = {one.name: one for one in _TABLE}

_OTHER_NAMES = {
    "FP32": "F32",
    "FP16": "F16",
    "Q2_K_L": "Q2_K",
    "Q2_K_XL": "Q2_K",
    "Q3_K": "Q3_K_M",
    "Q3_K_XL": "Q3_K_L",
    "Q4_K": "Q4_K_M",
    "Q4_K_L": "Q4_K_M",
    "Q4_K_XL": "Q4_K_M",
    "Q5_K": "Q5_K_M",
    "Q5_K_L": "Q5_K_M",
    "Q5_K_XL": "Q5_K_M",
    "Q6_K_L": "Q6_K",
    "Q6_K_XL": "Q6_K",
    "Q8_K_XL": "Q8_0",
    "MXFP4_MOE": "MXFP4",
    "Q4": "Q4_0",
    "Q8": "Q8_0",
}
"""Further spellings, and mixes that some publishers make with more bits in some of the layers."""

_NAMED = re.compile(
    r"(?:^|(?<=[-._ /]))((?:UD-|i1-)?(?:"
    + "|".join(sorted((re.escape(name) for name in {**_BY_NAME, **_OTHER_NAMES}), key=len, reverse=True))
    + r"))(?=$|[-._ /])",
    re.IGNORECASE,
)


def quantization_in(file_name: str) -> tuple[str, Quantization] | None:
    """The name of the quantisation in a GGUF file's path, as written there, and what it means.

    The last one counts: a model's own name may hold another. "UD-" and "i1-", which some publishers put
    before it, belong to the name: they are mixes of their own.
    """
    found = _NAMED.findall(file_name.removesuffix(".gguf"))
    if not found:
        return None
    written = str(found[-1])
    prefix, _, plain = written.rpartition("-")
    plain = plain.upper()
    meant = _BY_NAME[_OTHER_NAMES.get(plain, plain)]
    written_prefix = {"ud": "UD-", "i1": "i1-"}.get(prefix.lower(), "")
    return written_prefix + {"FP16": "F16", "FP32": "F32"}.get(plain, plain), meant


def bits_hint(bits: float) -> str:
    """Quality in a few words of so many bits per weight, where no better is known."""
    for least, hint in ((15, LOSSLESS), (6, NEAR), (5, GOOD), (4, BALANCED), (3.4, FAIR), (2.5, POOR)):
        if bits >= least:
            return hint
    return WORST
