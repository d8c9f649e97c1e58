"""Loading a model whole: configuration, tokenizer, weights, and room for its KV pages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import mlx.core as mx

from engine.errors import ModelError
from engine.events.models import ModelInfo
from engine.fitting.fit import budget_pages, check_weights, kv_budget, resident_tokens
from engine.kernels.kernels import Kernels
from engine.kv.arena import Arena
from engine.kv.memory import KVMemory
from engine.kv.page_file import CacheIdentity
from engine.kv.pager import Pager
from engine.kv.ssd.tier import SsdTier
from engine.kv.takes_pages import takes_pages
from engine.layers.decoder import Decoder
from engine.loading.config import DecoderConfig
from engine.loading.executor import executor_for, open_kernels, with_kernels
from engine.loading.files import ModelFiles
from engine.loading.fingerprinting import Fingerprinting
from engine.loading.folder import open_folder
from engine.loading.gguf.files import open_gguf
from engine.loading.gguf.parts import gguf_file
from engine.loading.gguf.placement import kernel_types
from engine.loading.shortage import enough_memory
from engine.loading.thread import Apart, at_once, reading
from engine.loading.weights import LoadLedger
from engine.machine.machine import compute_dtype, device_kind, memory_bytes
from engine.settings import EngineSettings, ExecutorChoice
from engine.tokenizer import Tokenizer
from metal.block_types import BlockType

log = logging.getLogger(__name__)

TRIAL_SECONDS = 20.0
"""After so long no further kernel is tried while somebody waits for the model."""


@dataclass(slots=True)
class LoadedModel:
    """A model ready to run, with its own KV memory and, where the executor has any, kernels.

    `fingerprint`: what its pages and rates are known by, wherever it lies. `most_resident`: tokens of one
    sequence that are in pages at once, however long it is. `whole_context`: tokens that the model allows, of
    which settings leave those of `config`, and KV memory those of `info`.
    """

    info: ModelInfo
    fingerprint: str
    config: DecoderConfig
    decoder: Decoder
    tokenizer: Tokenizer
    arena: Arena
    pager: Pager
    memory: KVMemory
    tier: SsdTier | None
    kernels: Kernels | None
    most_resident: int
    whole_context: int

    def choose_kernels(self) -> None:
        """Choose anew what runs on kernels, after trials, and say so in `info`.

        Nothing may be in flight; who uses the kernels that were chosen before goes on with those.
        """
        if self.kernels is not None:
            self.kernels = Kernels(self.kernels.choice.again(), self.decoder, self.kernels.kv_bits)
            self.info = with_kernels(self.info, self.kernels)

    def limit_pages(self, pages: int, seconds: float) -> None:
        """KV memory may grow to `pages` pages from here on, at most to what it had when alone.

        An arena that is larger is freed, and what is cached in it spilled: no request may hold pages then,
        and none may be pinned. The SSD has `seconds` to take it; what takes longer is lost.
        """
        pages = min(pages, self.pager.built_pages)
        if pages == self.pager.total_pages:
            return
        if pages < self.arena.pages:
            self.memory.save(seconds)
            self.memory.evict_all()
            self.arena.release()
        self.arena.growing.keep_to(pages)
        self.pager.limit(pages)
        context = _usable_context(self.config, self.pager, self.most_resident)
        self.info = replace(self.info, total_pages=pages, context_length=context)

    def prove_block_kernels(
        self, begin: Callable[[], None], stop: Callable[[], bool], meanwhile: Callable[[], bool]
    ) -> None:
        """Try the kernels without which products make floats of their blocks at each use, and choose.

        Chat can do without other kernels until the engine rests; without these it is slower many times over.

        Args:
            begin: called if there is anything to try, which takes seconds, once for this kind of model here.
            stop: asked often; ends it.
            meanwhile: called again and again while nothing is timed; whether it had anything to do.
        """
        if self.kernels is None or self.kernels.choice.is_forced or not self.kernels.ops.unpacking:
            return
        begin()
        selection = self.kernels.choice.selection
        keys = self.kernels.ops.unpacking
        if selection.run_pending(TRIAL_SECONDS, stop=stop, keys=keys, meanwhile=meanwhile):
            self.choose_kernels()
        elif selection.problem:
            log.warning("%s: kernels stay untried: %s", self.info.name, selection.problem)

    def drop_kernels(self, why: str) -> None:
        """From the next Runner on MLX's own operations run alone; `info` says `why`."""
        log.warning("%s: %s", self.info.name, why)
        self.kernels = None
        self.info = replace(
            self.info, executor="reference", executor_reason=f"MLX built-in operations; {why}"
        )


def open_model(path: Path) -> ModelFiles:
    """Read and check everything but the weights of a model folder or a `.gguf` file.

    Raises ModelError or TokenizerError, one line.
    """
    try:
        with enough_memory(path):
            file = gguf_file(path)
            return open_folder(path) if file is None else open_gguf(file)
    except OSError as error:  # such as a folder that is closed to us
        raise ModelError(f"{path} cannot be read ({error.strerror}); check its permissions") from error


def load_model(
    path: Path,
    settings: EngineSettings,
    on_progress: Callable[[int, int], None],
    files: ModelFiles | None = None,
    apart: Apart = at_once,
) -> LoadedModel:
    """Load the model folder or `.gguf` file `path`; `on_progress(loaded, total)` counts bytes of weights.

    `files`: it, where it was opened before. `apart`: has files read, and `on_progress` called from there.
    Raises ModelError or TokenizerError with one line that names the file or field, and EngineError where the
    settings do not go with the model. Whatever `on_progress` raises ends the load.
    """
    files = files or apart(partial(open_model, path))
    dtype = compute_dtype(files.stored_dtype)
    config, page_size = _limited(files.config, settings.context), settings.page_size
    arena = Arena(config.layers, config.kv_heads, config.head_dim, page_size, dtype, settings.kv_bits)
    executor = executor_for(settings)
    readable = kernel_types(executor.name)

    def read() -> tuple[Decoder, LoadLedger, str]:
        content = files.weights.content()
        with enough_memory(path), Fingerprinting(content, settings.cache) as fingerprinting:
            decoder, ledger = _load_decoder(files, dtype, page_size, readable, on_progress)
            total = files.weights.total_bytes()
            return decoder, ledger, fingerprinting.result(lambda: on_progress(total, total))

    decoder, ledger, fingerprint = apart(read)
    kernels = open_kernels(executor, decoder, settings)
    pager = Pager(_arena_pages(arena, settings, ledger.weight_bytes), page_size)
    resident = resident_tokens(config.context_length, config.largest_window, settings)
    context = _usable_context(config, pager, resident)
    info = _describe(path, files, dtype, context, decoder, ledger, arena, pager, executor)
    if kernels is not None:
        info = with_kernels(info, kernels)
    tier = _open_tier(fingerprint, config, dtype, settings)
    memory = KVMemory(pager, arena, tier, config.largest_window)
    return LoadedModel(
        info=info,
        fingerprint=fingerprint,
        config=config,
        decoder=decoder,
        tokenizer=files.tokenizer,
        arena=arena,
        pager=pager,
        memory=memory,
        tier=tier,
        kernels=kernels,
        most_resident=resident,
        whole_context=files.config.context_length,
    )


def _limited(config: DecoderConfig, context: int | None) -> DecoderConfig:
    """`config` with a context of at most `context` tokens."""
    if context is None or context >= config.context_length:
        return config
    return replace(config, context_length=context)


def _open_tier(
    fingerprint: str, config: DecoderConfig, dtype: mx.Dtype, settings: EngineSettings
) -> SsdTier | None:
    """Where its pages are kept on SSD; None where they are not."""
    if settings.ssd is None:
        return None
    if not takes_pages(config.head_dim, settings.page_size, dtype, settings.kv_bits):
        log.warning("pages are not kept on SSD: what is read from there does not reach this machine's GPU")
        return None
    identity = CacheIdentity(fingerprint, _name(dtype), settings.page_size, settings.kv_bits)
    return SsdTier(settings.ssd, identity)


def _describe(
    path: Path,
    files: ModelFiles,
    dtype: mx.Dtype,
    context: int,
    decoder: Decoder,
    ledger: LoadLedger,
    arena: Arena,
    pager: Pager,
    executor: ExecutorChoice,
) -> ModelInfo:
    """What is told of it, but for what runs on kernels; one request may hold `context` tokens."""
    return ModelInfo(
        path=str(path),
        name=files.name,
        family=files.config.family,
        parameters=ledger.parameters,
        weight_bytes=ledger.weight_bytes,
        dtype=_name(dtype),
        context_length=context,
        page_size=pager.page_size,
        total_pages=pager.total_pages,
        page_bytes=arena.page_bytes,
        executor=executor.name,
        executor_reason=executor.reason,
        device=device_kind(),
        has_chat_template=files.tokenizer.chat_template is not None,
        step_weight_bytes=ledger.weight_bytes - decoder.lookup_bytes,
    )


def _name(dtype: mx.Dtype) -> str:
    return str(dtype).removeprefix("mlx.core.")


def _load_decoder(
    files: ModelFiles,
    dtype: mx.Dtype,
    page_size: int,
    readable: Collection[BlockType],
    on_progress: Callable[[int, int], None],
) -> tuple[Decoder, LoadLedger]:
    """The model, and what was read for it. `readable`: block formats that kernels read here."""
    needed = sum(kind.memory_bytes for kind in files.weights.kinds(dtype, readable))
    check_weights(files.name, needed, memory_bytes())
    total = files.weights.total_bytes()
    done = 0

    def count(header_bytes: int) -> None:
        nonlocal done
        done += header_bytes
        on_progress(min(done, total), total)
        between()

    on_progress(0, total)
    with reading() as between:
        weights = files.weights.open(dtype, readable, count)
        decoder = Decoder(files.config, weights, page_size)
    if untaken := weights.untaken():
        raise ModelError(
            f"{files.path}: {len(untaken)} tensors do not belong to a {files.config.family} model "
            f"(first: {untaken[0]:.80}); its configuration and its weights do not match"
        )
    mx.clear_cache()  # what passed through memory on the way
    return decoder, weights.ledger


_LESS = "close other programs or use a smaller model"


def _arena_pages(arena: Arena, settings: EngineSettings, weight_bytes: int) -> int:
    """Pages that KV memory may grow to: a limit, of which only what is used is taken."""
    budget = kv_budget(weight_bytes, memory_bytes(), settings)
    pages = budget_pages(budget, arena.page_bytes, settings)
    if pages < 1:
        is_set = budget == settings.kv_bytes  # which is no more than the weights leave
        raise ModelError(
            f"one KV page of {arena.page_size:,} tokens takes {arena.page_bytes:,} bytes and the budget is "
            + (f"set to {budget:,}; set a larger one" if is_set else f"{budget:,}; {_LESS}")
        )
    return pages


def _usable_context(config: DecoderConfig, pager: Pager, resident: int) -> int:
    """Most tokens that one request can hold, prompt and answer together; `resident` are in pages at most."""
    if pager.total_pages >= pager.pages_for(resident):
        return config.context_length
    return min(config.context_length, pager.total_pages * pager.page_size)
