"""The ops of a model's decode step, each at the shapes that a trial measures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import mlx.core as mx

from engine.kernels import attention_set
from engine.layers.attention import attention_shape
from engine.loading.config import DecoderConfig
from metal import candidates
from metal.attention_shape import PAGE_SIZES
from metal.candidates_ends import embed_spec, pick_spec
from metal.candidates_pages import page_product
from metal.candidates_parts import name_of
from metal.candidates_prefill import chunk_spec, long_spec, odd_spec, short_spec
from metal.errors import KernelError
from metal.executors import Executor
from metal.matvec_weight import AFFINE_BITS
from metal.product import Product, few_rows, takes_few_rows
from metal.trial_case import Case, CaseBuilder, CaseSpec

ROWS = (1, 8)
"""Tokens in a step: one chat, and as many as a launch takes."""

_PROVIDERS: Mapping[str, Mapping[str, CaseBuilder]] = {
    candidates.__name__: candidates.CASES,
    attention_set.__name__: attention_set.CASES,
}


def build_case(spec: CaseSpec, executor: Executor) -> Case:
    """The case that `spec` describes. Raises KernelError for one that cannot be built."""
    return _PROVIDERS[spec.provider][spec.op](spec.params, executor)


def attention_specs(config: DecoderConfig, dtype: mx.Dtype, page_size: int) -> tuple[CaseSpec, ...]:
    """The cases of a model's attention: the set and prefill, for each window that its layers have.

    Raises KernelError for a shape that no kernel is written for.
    """
    shapes = [attention_shape(config, window, page_size, dtype) for window in dict.fromkeys(config.windows)]
    specs = attention_set.set_spec, chunk_spec, long_spec, odd_spec, short_spec
    return tuple(spec(shape) for spec in specs for shape in shapes)


def product_specs(config: DecoderConfig, dtype: mx.Dtype) -> tuple[CaseSpec, ...]:
    """The cases of a model's products, by the sizes in its configuration.

    Raises KernelError for weights that no kernel is written for.
    """
    name = name_of(dtype)
    few = [few_rows(product) for product in _products(config, name, 1) if takes_few_rows(product)]
    specs = [product.spec for rows in ROWS for product in _products(config, name, rows)]
    pages = page_specs(config, dtype) if _packing(config) == (0, 0) else ()
    return (*specs, *(product.spec for product in few), *pages)


def page_specs(config: DecoderConfig, dtype: mx.Dtype) -> tuple[CaseSpec, ...]:
    """The case of a short chunk's projections by dense weights, if they may go to pages as they are made."""
    shape, bias = attention_shape(config, None, PAGE_SIZES[0], dtype), config.attention_bias
    product = page_product(config.hidden_size, shape, name_of(dtype), bias=bias, copies=config.layers)
    return () if product is None else (product.spec,)


def norm_spec(config: DecoderConfig, dtype: mx.Dtype) -> CaseSpec:
    """The case of the norms that a prompt's rows go through; in a step they are part of products."""
    return candidates.prompt_norm_spec(config.hidden_size, name_of(dtype), config.norm_eps)


def end_specs(config: DecoderConfig, dtype: mx.Dtype) -> tuple[CaseSpec, ...]:
    """The cases of a step's two ends: the embedding's rows, and the greedy choice.

    Raises KernelError for weights that no kernel is written for.
    """
    bits, group = _packing(config)
    embeddings = [embed_spec(config.hidden_size, rows, name_of(dtype), bits, group) for rows in ROWS]
    return (*embeddings, pick_spec(config.vocab_size, 1))


def _products(config: DecoderConfig, dtype: str, rows: int) -> Iterable[Product]:
    """The products of a layer, and the logits."""
    hidden, inner, layers = config.hidden_size, config.intermediate_size, config.layers
    heads = config.heads * config.head_dim
    bits, group = _packing(config)
    qkv = heads + 2 * config.kv_heads * config.head_dim
    common = Product(hidden, qkv, rows, dtype, bits=bits, group=group, copies=layers)
    yield replace(common, norm=True, bias=config.attention_bias)
    yield replace(common, width=heads, columns=hidden, residual=True, bias=config.output_bias)
    yield replace(common, columns=inner, norm=True, activation="silu", bias=config.mlp_bias)
    yield replace(common, width=inner, columns=hidden, residual=True, bias=config.mlp_bias)
    yield replace(common, columns=config.vocab_size, norm=True, out="float32", copies=1)


def _packing(config: DecoderConfig) -> tuple[int, int]:
    """Bits and group of the weights that kernels take packed; zeros for dense ones.

    Raises KernelError for a packing that no kernel is written for.
    """
    spec = config.quantization.default if config.quantization else None
    if spec is None:
        return 0, 0
    if spec.mode != "affine" or spec.bits not in AFFINE_BITS:
        raise KernelError(
            f"weights of {spec.bits} bits ({spec.mode}): there are no kernels for these, "
            "so MLX's built-in operations run"
        )
    return spec.bits, spec.group_size
