"""GGUF's tensor names, and Hugging Face's for the same tensors (naming: ggml's docs/gguf.md, llama.cpp)."""

from __future__ import annotations

import re

_TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_IN_LAYER = re.compile(r"model\.layers\.(?P<layer>\d+)\.(?P<module>.+)\.(?P<kind>weight|bias)")
_QUERY_OR_KEY = re.compile(r"blk\.\d+\.attn_[qk]\.(weight|bias)")

ROPE_FACTORS = "rope_freqs.weight"
"""Divisors of the rotary frequencies, one of a pair of dimensions."""


def gguf_name(name: str) -> str:
    """What a GGUF file calls the tensor `name` of a Hugging Face model; `name` where it has no other."""
    found = _IN_LAYER.fullmatch(name)
    if found is not None and found["module"] in _LAYER:
        return f"blk.{found['layer']}.{_LAYER[found['module']]}.{found['kind']}"
    module, _, kind = name.rpartition(".")
    return f"{_TOP[module]}.{kind}" if module in _TOP else name


def is_query_or_key(name: str) -> bool:
    """Whether GGUF's `name` is a weight or bias whose rows llama.cpp reorders in models of its llama kind."""
    return _QUERY_OR_KEY.fullmatch(name) is not None
