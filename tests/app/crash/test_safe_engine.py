"""In safe mode the engine runs MLX's own operations, whatever else is set, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.crash.safe_engine import safe_settings
from engine import EXECUTOR_VARIABLE, EngineSettings, Generate, SsdSettings
from tests.fakes.listener import running_engine
from tests.fakes.random_model import write_random_model


def test_the_engine_is_careful_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXECUTOR_VARIABLE, "emulated")  # what the settings say comes first
    usual = EngineSettings(ssd=SsdSettings(tmp_path / "kv"), cache=tmp_path / "kernels")
    model = write_random_model(tmp_path / "model", eos_token_id=None)
    with running_engine(safe_settings(usual, "a key was held at the start")) as listener:
        info = listener.load(model).model
        assert (info.executor, info.executor_reason) == (
            "reference",
            "safe mode, since a key was held at the start",
        )
        listener.submit(Generate("one", tokens=(1, 5, 6, 5, 6, 5, 6), max_tokens=24, ignore_eos=True))
        finished = listener.finished("one")
        assert len(finished.tokens) == 24
        assert finished.drafted_tokens == 0
        assert all(name.startswith(("mlx.", "host.")) for name in finished.launches)
    assert not (tmp_path / "kv").exists()


def test_without_a_reason_everything_stays() -> None:
    usual = EngineSettings()
    assert safe_settings(usual, "") is usual
