"""Random commands at random moments: every request ends once, no page is lost, and the thread lives on."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import (
    Cancel,
    Failed,
    Finished,
    Generate,
    LoadModel,
    ModelReady,
    SamplingParams,
    Stats,
    UnloadModel,
)
from engine.runner import Runner
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model

ACTION = st.one_of(
    st.tuples(st.just("generate"), st.integers(1, 60), st.integers(1, 12)),
    st.tuples(st.just("bad"), st.sampled_from(["long", "empty", "outside", "broken template"])),
    st.tuples(st.just("cancel"), st.integers(0, 20)),
    st.tuples(st.just("load"), st.sampled_from(["llama", "qwen3", "missing"])),
    st.tuples(st.just("unload")),
)
BAD = {
    "long": {"tokens": (5,) * 5000},
    "empty": {"tokens": ()},
    "outside": {"tokens": (100_000,)},
    "broken template": {"messages": ()},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    write_random_model(root / "llama", max_position_embeddings=128)
    write_random_model(root / "qwen3", "qwen3", head_dim=8, max_position_embeddings=96)
    return root


def play(listener: Listener, models: Path, actions: list[tuple[object, ...]]) -> list[str]:
    """Submit the commands that `actions` stand for; returns the ids that must end."""
    ids: list[str] = []
    for number, (kind, *details) in enumerate(actions):
        name = f"{kind}-{number}"
        if kind == "generate":
            tokens = tuple(3 + (number + step) % 290 for step in range(int(str(details[0]))))
            hot = SamplingParams(temperature=0.8, top_p=0.9, presence_penalty=0.5)
            listener.submit(Generate(name, tokens=tokens, max_tokens=int(str(details[1])), sampling=hot))
        elif kind == "bad":
            listener.submit(Generate(name, **BAD[str(details[0])]))  # type: ignore[arg-type]
        elif kind == "load":
            listener.submit(LoadModel(name, str(models / str(details[0]))))
        elif kind == "cancel":
            listener.submit(Cancel(ids[int(str(details[0])) % len(ids)] if ids else "nobody"))
            continue
        else:
            listener.submit(UnloadModel())
            continue
        ids.append(name)
    return ids


@pytest.mark.parametrize("looks_ahead", [False, True])
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(ACTION, min_size=1, max_size=14))
def test_whatever_is_asked_every_request_ends_once_and_pages_come_back(
    models: Path, looks_ahead: bool, actions: list[tuple[object, ...]]
) -> None:
    """Where steps are read one by one, and where the next is sent before, as with kernels."""
    with pytest.MonkeyPatch.context() as patch, running_engine() as listener:
        patch.setattr(Runner, "looks_ahead", looks_ahead)
        listener.load(models / "llama", "first")
        ids = [*play(listener, models, actions), "last"]
        listener.submit(LoadModel("last", str(models / "llama")))
        listener.submit(Generate("check", tokens=(5, 6, 7), max_tokens=3, ignore_eos=True))
        assert len(listener.finished("check").tokens) == 3
        for name in ids:  # of another model they may go on behind the last
            listener.end_of(name)
        events = listener.drain()
        last = max(place for place, e in enumerate(events) if isinstance(e, Finished | Failed))
        if not any(isinstance(e, Stats) and not e.active_id for e in events[last:]):
            listener.wait(lambda event: isinstance(event, Stats) and not event.active_id)
        ends = [e.id for e in listener.drain() if isinstance(e, Finished | Failed | ModelReady)]
    assert sorted(ends) == sorted([*ids, "first", "check"])
    final = [event for event in listener.events if isinstance(event, Stats)][-1]
    assert final.pages_used == 0
