"""The engine's public face: commands in, events out, and what it knows of machines and models."""

from engine import blas as blas  # first: OpenBLAS must be loaded before anything imports mlx

# isort: split
from engine.benchmark import BatchRun, RunnerBench
from engine.benchmark_shapes import QUANTS, SHAPES, BenchShape, Quant, peer_quant, write_shape
from engine.cache_events import (
    CacheCounts,
    CacheReport,
    ChatMemory,
    ChatsCached,
    Freed,
    MissReason,
    Predicted,
    Refusal,
    WayOut,
)
from engine.commands import (
    AS_SET,
    Cancel,
    Command,
    Forget,
    Generate,
    History,
    Keep,
    Lane,
    LoadModel,
    Message,
    Pin,
    Predict,
    Shutdown,
    UnloadModel,
)
from engine.convert.convert import Converted, convert_model
from engine.convert.settings import CONVERT_DTYPES, CONVERT_QUANTS, ConvertSettings
from engine.engine import Engine
from engine.errors import (
    ConversionError,
    EngineError,
    InvalidRequest,
    ModelError,
    NoModel,
    NonFiniteLogits,
    PromptTooLong,
    TokenizerError,
)
from engine.events import (
    Event,
    Failed,
    Finished,
    FinishReason,
    KernelsChosen,
    LoadProgress,
    ModelInfo,
    ModelReady,
    ModelUnloaded,
    PrefillProgress,
    Sample,
    SampleEnded,
    Stats,
    TextChunk,
    Timing,
    TokenLogprob,
    TokenLogprobs,
)
from engine.fit import Fit, model_fit
from engine.inspection import ModelSummary, inspect_model
from engine.kernel_report import (
    KernelCheck,
    KernelMachine,
    KernelOp,
    KernelTable,
    check_kernels,
    kernel_machine,
    kernel_table,
    known_kernels,
)
from engine.kv.ssd_settings import SsdSettings
from engine.kv_loss import KvLoss, measure_kv_loss
from engine.loading.files import StoredKind
from engine.loading.gguf.config import ARCHITECTURES as GGUF_FAMILIES
from engine.loading.gguf.header import GGUF_TYPES
from engine.machine import MachineReport, machine_report
from engine.models import FAMILIES
from engine.outline import ModelOutline, outline_model
from engine.peer import Peer, PeerRun
from engine.sampling_params import SamplingParams
from engine.settings import EXECUTOR_VARIABLE, EXECUTORS, EngineSettings

__all__ = [
    "AS_SET",
    "CONVERT_DTYPES",
    "CONVERT_QUANTS",
    "EXECUTORS",
    "EXECUTOR_VARIABLE",
    "FAMILIES",
    "GGUF_FAMILIES",
    "GGUF_TYPES",
    "QUANTS",
    "SHAPES",
    "BatchRun",
    "BenchShape",
    "CacheCounts",
    "CacheReport",
    "Cancel",
    "ChatMemory",
    "ChatsCached",
    "Command",
    "ConversionError",
    "ConvertSettings",
    "Converted",
    "Engine",
    "EngineError",
    "EngineSettings",
    "Event",
    "Failed",
    "FinishReason",
    "Finished",
    "Fit",
    "Forget",
    "Freed",
    "Generate",
    "History",
    "InvalidRequest",
    "Keep",
    "KernelCheck",
    "KernelMachine",
    "KernelOp",
    "KernelTable",
    "KernelsChosen",
    "KvLoss",
    "Lane",
    "LoadModel",
    "LoadProgress",
    "MachineReport",
    "Message",
    "MissReason",
    "ModelError",
    "ModelInfo",
    "ModelOutline",
    "ModelReady",
    "ModelSummary",
    "ModelUnloaded",
    "NoModel",
    "NonFiniteLogits",
    "Peer",
    "PeerRun",
    "Pin",
    "Predict",
    "Predicted",
    "PrefillProgress",
    "PromptTooLong",
    "Quant",
    "Refusal",
    "RunnerBench",
    "Sample",
    "SampleEnded",
    "SamplingParams",
    "Shutdown",
    "SsdSettings",
    "Stats",
    "StoredKind",
    "TextChunk",
    "Timing",
    "TokenLogprob",
    "TokenLogprobs",
    "TokenizerError",
    "UnloadModel",
    "WayOut",
    "check_kernels",
    "convert_model",
    "inspect_model",
    "kernel_machine",
    "kernel_table",
    "known_kernels",
    "machine_report",
    "measure_kv_loss",
    "model_fit",
    "outline_model",
    "peer_quant",
    "write_shape",
]
