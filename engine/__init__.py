"""The engine's public face: commands in, events out, and what it knows of machines and models."""

from engine import blas as blas  # first: OpenBLAS must be loaded before anything imports mlx

# isort: split
from engine.benchmark import BatchRun, RunnerBench
from engine.benchmark_shapes import QUANTS, SHAPES, BenchShape, Quant, write_shape
from engine.commands import Cancel, Command, Generate, LoadModel, Message, Shutdown, UnloadModel
from engine.engine import Engine
from engine.errors import (
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
    Stats,
    TextChunk,
    Timing,
    TokenLogprob,
    TokenLogprobs,
)
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
from engine.machine import MachineReport, machine_report
from engine.models import FAMILIES
from engine.peer import Peer, PeerRun
from engine.sampling_params import SamplingParams
from engine.settings import EXECUTOR_VARIABLE, EXECUTORS, EngineSettings

__all__ = [
    "EXECUTORS",
    "EXECUTOR_VARIABLE",
    "FAMILIES",
    "QUANTS",
    "SHAPES",
    "BatchRun",
    "BenchShape",
    "Cancel",
    "Command",
    "Engine",
    "EngineError",
    "EngineSettings",
    "Event",
    "Failed",
    "FinishReason",
    "Finished",
    "Generate",
    "InvalidRequest",
    "KernelCheck",
    "KernelMachine",
    "KernelOp",
    "KernelTable",
    "KernelsChosen",
    "LoadModel",
    "LoadProgress",
    "MachineReport",
    "Message",
    "ModelError",
    "ModelInfo",
    "ModelReady",
    "ModelSummary",
    "ModelUnloaded",
    "NoModel",
    "NonFiniteLogits",
    "Peer",
    "PeerRun",
    "PrefillProgress",
    "PromptTooLong",
    "Quant",
    "RunnerBench",
    "SamplingParams",
    "Shutdown",
    "Stats",
    "TextChunk",
    "Timing",
    "TokenLogprob",
    "TokenLogprobs",
    "TokenizerError",
    "UnloadModel",
    "check_kernels",
    "inspect_model",
    "kernel_machine",
    "kernel_table",
    "known_kernels",
    "machine_report",
    "write_shape",
]
