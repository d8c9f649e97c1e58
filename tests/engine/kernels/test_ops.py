"""The linear parts of a prompt: kernels compute those where that was measured to be faster than MLX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

import engine.loading.model
from engine import EngineSettings
from engine.kernels.cases import build_case, norm_spec, product_specs
from engine.kernels.choice import KernelChoice
from engine.kernels.kernels import Kernels
from engine.kv.page_table import PageCopy, PageTable
from engine.layers.attention import AttentionLayer
from engine.layers.ops import BuiltinOps, LinearOps
from engine.loading.model import LoadedModel, load_model, open_model
from engine.runner import Runner
from engine.steps.parts import Part
from metal.prefill_attention import PrefillAttention
from metal.selection import Selection
from metal.trial_cache import TrialCache
from metal.trial_case import CaseSpec
from metal.trial_record import CandidateRecord, OpRecord
from metal.trial_scope import ExecutorName, Scope, open_executor, this_scope
from tests.engine.parity import our_logits, prompt
from tests.fakes.random_model import write_random_model
from tests.metal.conftest import BUILD
from tests.metal.numbers import wide

LAYERS = 2
SHAPE = {"head_dim": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": LAYERS}


def remember(folder: Path, scope: Scope, spec: CaseSpec, chosen: str) -> None:
    """Writes down a trial that `chosen` won."""
    case = build_case(spec, open_executor(scope.executor, BUILD))
    candidates = tuple(
        CandidateRecord(one.name, one.digest, "chosen" if one.name == chosen else "slower", microseconds=9.0)
        for one in case.contenders
    )
    record = OpRecord(case.key, chosen, candidates)
    TrialCache(folder, scope).update(lambda records: records.update({record.key: record}))


def first_queries(layer: AttentionLayer, qkv: mx.array) -> mx.array:
    return qkv[:, : layer.shape.heads * layer.shape.head_dim]


@pytest.mark.parametrize("chosen", ["mlx", "rms_norm", None])
def test_a_prompt_s_norm_is_the_one_that_was_measured_to_be_faster(
    chosen: str | None, executor_name: ExecutorName, tmp_path: Path
) -> None:
    folder = write_random_model(tmp_path / "model", "llama", **SHAPE)
    decoder = load_model(folder, EngineSettings(executor="reference"), lambda done, total: None).decoder
    scope = Scope("a machine", "0.32.4", executor_name)
    if chosen:
        remember(tmp_path, scope, norm_spec(open_model(folder).config, mx.float32), chosen)
    executor, selection = open_executor(executor_name, BUILD), Selection(tmp_path, scope)
    kernels = Kernels(KernelChoice(executor_name, executor, selection, is_forced=True), decoder)

    def hidden(ops: LinearOps[mx.array]) -> mx.array:
        return decoder.hidden(mx.arange(9, dtype=mx.uint32), ops, first_queries)

    kernels.launches.clear()
    found, expected = wide(hidden(kernels.ops)), wide(hidden(BuiltinOps()))
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
    norms = {"rms_norm": 2 * LAYERS} if chosen == "rms_norm" else {}
    assert kernels.launches == {"embed": 1, **norms}


@pytest.mark.parametrize("rows", [32, 16, 9])
def test_products_of_a_short_chunk_are_those_that_were_measured_to_be_faster(
    rows: int, executor_name: ExecutorName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the feed-forward layer's last, which was slower; of a model in 16 bits, as on a GPU."""
    monkeypatch.setattr(engine.loading.model, "compute_dtype", lambda _stored: mx.float16)
    folder = write_random_model(tmp_path / "model", "qwen2", **SHAPE)
    model = load_model(folder, EngineSettings(executor="reference"), lambda done, total: None)
    assert model.info.dtype == "float16"
    scope = Scope("a machine", "0.32.4", executor_name)
    executor, config = open_executor(executor_name, BUILD), open_model(folder).config
    tried = [spec for spec in product_specs(config, mx.float16) if spec.params.get("rows") == 32]
    assert len(tried) == 4
    for spec in tried:
        ours = build_case(spec, executor).contenders[1].name
        remember(tmp_path, scope, spec, "mlx" if spec.params["width"] == config.intermediate_size else ours)
    selection = Selection(tmp_path, scope)
    kernels = Kernels(KernelChoice(executor_name, executor, selection, is_forced=True), model.decoder)

    def hidden(ops: LinearOps[mx.array]) -> mx.array:
        return model.decoder.hidden(mx.arange(rows, dtype=mx.uint32), ops, first_queries)

    kernels.launches.clear()
    found, expected = wide(hidden(kernels.ops)), wide(hidden(BuiltinOps()))
    assert np.abs(found - expected).max() <= 4e-3 * np.abs(expected).max()
    assert kernels.launches == {"embed": 1, **({"matmul": 3 * LAYERS} if rows > 9 else {})}


def logits_of_chunks(
    model: LoadedModel, tokens: Sequence[int], size: int, chats: Sequence[Sequence[int]] = ()
) -> mx.array:
    """As `our_logits`, on the way that is traced on a GPU.

    `chats`: one after the other goes on from what is in memory of those before it; their rows come last.
    """
    runner, rows = Runner(model), list[mx.array]()
    for ids in (tokens, *chats):
        table = model.memory.begin(ids, "chat")
        for begin in range(table.length, len(ids), size):
            part = ids[begin : begin + size]
            model.memory.grow(table, begin + len(part))
            rows.append(runner.fill(Part(table, len(part)), part, may_trace=True)[0])
            mx.eval(rows[-1], runner.results)
        model.memory.keep(table, ids, "chat", whole=False)
        model.memory.free(table)
    return mx.stack(rows)


def with_page_products(
    folder: Path, name: ExecutorName, monkeypatch: pytest.MonkeyPatch
) -> tuple[LoadedModel, LoadedModel, int]:
    """The model in float16 without kernels, and with those for short chunks; how many write pages."""
    monkeypatch.setattr(engine.loading.model, "compute_dtype", lambda _stored: mx.float16)
    executor, cache = open_executor(name, BUILD), folder.parent
    specs = [s for s in product_specs(open_model(folder).config, mx.float16) if s.op == "project to pages"]
    for spec in specs:
        remember(cache, this_scope(name), spec, build_case(spec, executor).contenders[1].name)
    plain, ours = (
        load_model(folder, EngineSettings(executor=each, cache=cache), lambda done, total: None)
        for each in ("reference", name)
    )
    kernels = ours.kernels
    assert kernels is not None
    for shape, launchers in kernels.attention.items():
        short = PrefillAttention(kernels.choice.executor, kernels.launches, shape)
        kernels.attention[shape] = replace(launchers, short=short)
    return plain, ours, len(specs)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_a_short_chunk_s_projections_go_to_pages_as_they_are_made(
    family: str, executor_name: ExecutorName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same launch, where that was measured to be faster; not heads that are normalised (qwen3).

    A chat that branches off in a page gets a copy of it in that launch, too, and leaves the page as it is.
    """
    folder, tokens = write_random_model(tmp_path / "model", family, **SHAPE), prompt()[:70]
    plain, ours, specs = with_page_products(folder, executor_name, monkeypatch)
    assert specs == (family != "qwen3")
    kernels = ours.kernels
    assert kernels is not None
    kernels.launches.clear()
    branches = [(*tokens[:37], *tokens[:12]), (*tokens[:45], *tokens[3:15]), (*tokens, *tokens[:9])]
    found = wide(logits_of_chunks(ours, tokens, 17, branches))
    expected = [wide(our_logits(plain, tokens, 17))]
    expected += [wide(our_logits(plain, branch, len(branch)))[-1:] for branch in branches]
    assert np.abs(found - np.concatenate(expected)).max() <= 1e-2 * np.abs(expected[0]).max()
    # What is traced launches again without being called.
    chunks = (
        (len(tokens) // 17 + len(branches)) * LAYERS
        if executor_name == "emulated"
        else kernels.launches["prefill_attention"]
    )
    assert kernels.launches["prefill_attention"] == chunks > 0
    assert kernels.launches["matmul"] == (chunks if specs else 0)
    assert kernels.launches["page_write"] == (0 if specs else chunks)
    assert (kernels.launches["page_copy"] == 0) is bool(specs)


def test_a_copy_for_one_who_left_harms_nobody_who_got_that_page(
    executor_name: ExecutorName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was due when its chat was cancelled: the next one's second page is the one that it was for."""
    folder, tokens = write_random_model(tmp_path / "model", **SHAPE), prompt()[:25]
    plain, ours, _ = with_page_products(folder, executor_name, monkeypatch)
    runner, table = Runner(ours), PageTable()
    ours.memory.grow(table, len(tokens))
    ours.arena.copy(PageCopy(7, table.pages[1]))
    found = wide(runner.fill(Part(table, len(tokens)), tokens, may_trace=True)[0])
    expected = wide(our_logits(plain, tokens, len(tokens))[0])
    assert np.abs(found - expected).max() <= 1e-2 * np.abs(expected).max()
    after = wide(runner.fill(Part(table, 1, 1), tokens[:1])[0])
    expected = wide(our_logits(plain, (*tokens, tokens[0]), 1)[-1])
    assert np.abs(after - expected).max() <= 1e-2 * np.abs(expected).max()
