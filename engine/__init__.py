"""The engine's public face: commands in, events out, and what it knows of machines and models."""

from engine import blas as blas  # first: OpenBLAS must be loaded before anything imports mlx

# isort: split
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
from engine.machine import MachineReport, machine_report
from engine.models import FAMILIES
from engine.peer import Peer, PeerRun
from engine.sampling_params import SamplingParams
from engine.settings import EXECUTOR_VARIABLE, EXECUTORS, EngineSettings

__all__ = [
    "EXECUTORS",
    "EXECUTOR_VARIABLE",
    "FAMILIES",
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
    "SamplingParams",
    "Shutdown",
    "Stats",
    "TextChunk",
    "Timing",
    "TokenLogprob",
    "TokenLogprobs",
    "TokenizerError",
    "UnloadModel",
    "inspect_model",
    "machine_report",
]
