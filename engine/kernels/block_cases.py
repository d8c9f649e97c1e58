"""The products of a model in a GGUF file, at the shapes that trials measure: tensors differ in format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import mlx.core as mx

from engine.kernels.cases import ROWS, page_specs
from engine.loading.config import DecoderConfig
from engine.loading.gguf.files import GgufFiles
from engine.loading.gguf.placement import place
from metal.candidates_ends import embed_spec, pick_spec
from metal.candidates_matmul import MATMUL_ROWS, matmul_spec
from metal.candidates_parts import name_of
from metal.matvec_weight import AFFINE_BITS, KERNEL_BLOCK_TYPES
from metal.product import Product, few_rows, takes_few_rows
from metal.repack import GROUP
from metal.trial_case import CaseSpec


@dataclass(frozen=True, slots=True)
class _Form:
    """How a matrix lies in memory: packed to `bits`, in blocks of format `block`, or else dense."""

    bits: int
    group: int
    block: str

    @property
    def has_kernel(self) -> bool:
        return self.bits in (0, *AFFINE_BITS)


def block_product_specs(files: GgufFiles, dtype: mx.Dtype) -> tuple[CaseSpec, ...]:
    """The cases of a model's products, each once; what lies in a form that no kernel takes is left out."""
    specs = {f"{spec.op} {sorted(spec.params.items())}": spec for spec in _product_specs(files, dtype)}
    return tuple(specs.values())


def block_end_specs(files: GgufFiles, dtype: mx.Dtype) -> tuple[CaseSpec, ...]:
    """The cases of a step's two ends: the embedding's rows, if kernels take them, and the greedy choice."""
    form, width = _form(files, "token_embd", dtype), files.config.hidden_size
    rows_of = ROWS if form.has_kernel else ()
    embeds = [embed_spec(width, rows, name_of(dtype), form.bits, form.group, form.block) for rows in rows_of]
    return (*embeds, pick_spec(files.config.vocab_size, 1))


def _product_specs(files: GgufFiles, dtype: mx.Dtype) -> Iterator[CaseSpec]:
    config, name = files.config, name_of(dtype)
    for product in _products(files, name, dtype):
        yield from (replace(product, rows=rows).spec for rows in ROWS)
        if takes_few_rows(product):
            yield few_rows(product).spec
        if product.block and not product.out:
            for rows in MATMUL_ROWS:
                yield matmul_spec(product.block, product.width, product.weight_rows, rows, name)
    width = (files.config.heads + 2 * files.config.kv_heads) * files.config.head_dim
    if [(_Form(0, 0, ""), width)] in _projections(files, dtype):
        yield from page_specs(config, dtype)
    output = _form(files, "token_embd" if config.tied_embeddings else "output", dtype)
    if output.has_kernel:
        logits = _product(config, name, output, config.hidden_size, config.vocab_size)
        for rows in ROWS:
            yield replace(logits, rows=rows, norm=True, out="float32", copies=1).spec


def _products(files: GgufFiles, name: str, dtype: mx.Dtype) -> Iterator[Product]:
    """Those of all layers; neighbours in one form are one, as in `engine.layers.matrix.load_matrices`."""
    config = files.config
    hidden, inner, heads = config.hidden_size, config.intermediate_size, config.heads * config.head_dim
    for layer, qkv in enumerate(_projections(files, dtype)):
        for form, columns in qkv:
            product = _product(config, name, form, hidden, columns)
            yield replace(product, norm=True, bias=config.attention_bias)
        both = _joined(files, layer, (("ffn_gate", inner), ("ffn_up", inner)), dtype)
        for form, columns in both:
            product = replace(_product(config, name, form, hidden, columns), norm=True, bias=config.mlp_bias)
            yield replace(product, columns=inner, activation="silu") if len(both) == 1 else product
        for tensor, width, bias in (
            ("attn_output", heads, config.output_bias),
            ("ffn_down", inner, config.mlp_bias),
        ):
            for form, columns in _joined(files, layer, ((tensor, hidden),), dtype):
                yield replace(_product(config, name, form, width, columns), residual=True, bias=bias)


def _projections(files: GgufFiles, dtype: mx.Dtype) -> Iterator[list[tuple[_Form, int]]]:
    """Of each layer the products that make queries, keys and values."""
    config = files.config
    heads, keys = (count * config.head_dim for count in (config.heads, config.kv_heads))
    for layer in range(config.layers):
        yield _joined(files, layer, (("attn_q", heads), ("attn_k", keys), ("attn_v", keys)), dtype)


def _product(config: DecoderConfig, name: str, form: _Form, width: int, columns: int) -> Product:
    return Product(width, columns, 1, name, form.bits, form.group, form.block, copies=config.layers)


def _joined(
    files: GgufFiles, layer: int, parts: Sequence[tuple[str, int]], dtype: mx.Dtype
) -> list[tuple[_Form, int]]:
    """The forms of neighbouring tensors of a layer with their rows together; those that kernels take."""
    forms = [(_form(files, f"blk.{layer}.{name}", dtype), rows) for name, rows in parts]
    runs = [(form, sum(rows for _, rows in run)) for form, run in groupby(forms, key=lambda one: one[0])]
    return [(form, rows) for form, rows in runs if form.has_kernel]


def _form(files: GgufFiles, name: str, dtype: mx.Dtype) -> _Form:
    block_type = files.tensors[f"{name}.weight"].block_type
    if block_type is None:
        return _Form(0, 0, "")
    placement = place(block_type, dtype, KERNEL_BLOCK_TYPES)
    if placement.form == "blocks":
        return _Form(0, 0, block_type.name)
    if placement.packing is None:
        return _Form(0, 0, "")
    is_affine = placement.packing.mode == "affine"
    return _Form(placement.packing.bits if is_affine else -1, GROUP, "")
