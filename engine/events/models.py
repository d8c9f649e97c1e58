"""What the engine tells of models: how far one is loaded, what runs it, and that it has left memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

UnloadReason = Literal["asked", "idle", "room"]


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Loading advanced: `loaded_bytes` of `total_bytes` of weights are in memory.

    `is_trying`: they all are, and kernels are tried before the first request.
    """

    id: str
    loaded_bytes: int
    total_bytes: int
    is_trying: bool = False


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is loaded.

    Attributes:
        path: the folder given to LoadModel.
        name: the folder's name, for people.
        family: `model_type` of its config, such as "llama".
        parameters: number of weights (quantised ones counted as the weights they stand for).
        weight_bytes: bytes the weights take in memory.
        dtype: dtype of activations and KV pages: "float32", "float16" or "bfloat16".
        context_length: most tokens, prompt and answer together, that one request may hold.
        page_size: tokens per KV page.
        total_pages: pages that its arena may have, as far as was known then; Stats has what it may have now.
        page_bytes: bytes of one page over all layers, K and V together.
        executor: what runs attention: "reference" is MLX built-ins.
        executor_reason: why, in words.
        device: "Metal", "CUDA" or "CPU".
        has_chat_template: whether Generate(messages=…) works.
        step_weight_bytes: of weight_bytes, what a decode step reads: all but an embedding of which it takes
            single rows.
        kernel_notes: what goes more slowly than it could, a line each: parts of the model that no kernel
            takes, or whose kernels failed on this machine, so that MLX's own operations run there; and
            prompts beside answers, where their processes broke; and a draft model that did.
    """

    path: str
    name: str
    family: str
    parameters: int
    weight_bytes: int
    dtype: str
    context_length: int
    page_size: int
    total_pages: int
    page_bytes: int
    executor: str
    executor_reason: str
    device: str
    has_chat_template: bool
    step_weight_bytes: int = 0
    kernel_notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelReady:
    """LoadModel `id` succeeded."""

    id: str
    model: ModelInfo


@dataclass(frozen=True, slots=True)
class KernelsChosen:
    """Something else runs now, as kernels were tried at rest or something broke; `model` says what."""

    model: ModelInfo


@dataclass(frozen=True, slots=True)
class ModelUnloaded:
    """Weights and pages are freed; `path` is the folder or file that was loaded.

    `reason`: "idle" when nobody had used it for as long as EngineSettings.unload_after says, when another one
    that rested was asked and does not fit beside it, or when nobody waits any more for it to come back; the
    next request for it then loads it again. "room" when another model was loaded that does not fit beside it.
    """

    path: str
    reason: UnloadReason = "asked"
