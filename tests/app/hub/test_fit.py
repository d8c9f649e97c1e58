"""Whether a choice fits, told before it is downloaded and after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.hub.choice import Choice
from app.hub.choices import find_choice
from app.hub.client import HubClient
from app.hub.details import RepoDetails, read_details
from app.hub.errors import Unreachable
from app.hub.fit import GGUF_BEGIN, ChoiceFit, fit_by_shape, fit_by_size, known_elements, read_shape
from engine import EngineSettings, inspect_model, model_fit
from tests.engine.loading.gguf.writer import WIDE, q4_k_m, write_gguf_model
from tests.fakes.random_model import write_random_model
from tests.hub.fixtures import HubHome
from tests.hub.repos import HubFile, Repo
from tests.hub.server import HubServer

GB = 10**9


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A repository's folder: one model in safetensors and in GGUF."""
    folder = write_random_model(tmp_path / "repo", head_dim=32, max_position_embeddings=4096)
    shape = {**WIDE, "hidden_size": 512, "intermediate_size": 1024, "max_position_embeddings": 4096}
    write_gguf_model(folder / "model-Q4_K_M.gguf", types=q4_k_m, **shape)
    return folder


@pytest.fixture
def hub(hub_home: HubHome, model: Path) -> Iterator[HubServer]:
    size = (model / "model.safetensors").stat().st_size
    gguf = {"architecture": "llama", "total": inspect_model(model / "model-Q4_K_M.gguf").parameters}
    with HubServer(
        [Repo.from_folder("org/both", model, safetensors={"F32": size // 4}, gguf=gguf)]
    ) as server:
        hub_home.connect(server)
        yield server


def opened(repo: str = "org/both") -> RepoDetails:
    return read_details(HubClient(), repo)


def judged(
    details: RepoDetails, choice: Choice, memory: int, context: int | None, bits: int | None
) -> ChoiceFit:
    shapes = read_shape(HubClient(), details, [choice])
    settings = EngineSettings(kv_bits=bits)
    elements = known_elements(details, choice)
    shape = shapes[choice.format]
    return fit_by_shape(choice, shape, memory, context=context, settings=settings, elements=elements)


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("bits", [None, 8])
@pytest.mark.parametrize("memory", [64 * GB, 8_000_000, 2_000_000, 100_000])
def test_what_is_told_before_the_download_is_what_is_told_after_it(
    memory: int, bits: int | None, model: Path
) -> None:
    details = opened()
    for key, path in (("f32", model), ("q4_k_m", model / "model-Q4_K_M.gguf")):
        before = judged(details, find_choice(details.choices.choices, key), memory, 2048, bits)
        after = model_fit(inspect_model(path, bits), memory, context=2048)
        assert before.fit is not None
        assert before.verdict == after.verdict
        assert (before.fit.kv_bytes, before.fit.context) == (after.kv_bytes, 2048)
        assert before.fit.weight_bytes == pytest.approx(after.weight_bytes, rel=0.06)
        assert before.words.startswith(before.verdict)
        assert before.assumed == ""


def test_little_is_fetched_and_once_for_all_of_a_format(hub: HubServer, model: Path) -> None:
    with (model / "model-Q4_K_M.gguf").open("ab") as file:
        file.write(bytes(4 * GGUF_BEGIN))
    hub.update(Repo.from_folder("org/both", model))
    details = opened()
    choices = details.choices.choices
    before = len(hub.requests)
    shapes = read_shape(HubClient(), details, [*choices, *choices])
    assert set(shapes) == {"gguf", "safetensors"}
    files = {served.file for served in hub.requests[before:]}
    assert files == {"config.json", "model-Q4_K_M.gguf"}
    assert hub.bytes_sent("org/both", "model-Q4_K_M.gguf") == GGUF_BEGIN


@pytest.mark.usefixtures("hub")
def test_sizes_alone_ask_nothing_and_say_what_they_assume(hub: HubServer) -> None:
    choice = find_choice(opened().choices.choices, "q4_k_m")
    before = len(hub.requests)
    large = replace(choice, weight_bytes=5 * GB, parameters=8 * GB)
    assert fit_by_size(large, 64 * GB).verdict == "fits"
    assert fit_by_size(large, 6 * GB, context=32_768).verdict == "tight"
    assert fit_by_size(large, 5 * GB).verdict == "does not fit"
    told = fit_by_size(large, 64 * GB, context=4096)
    assert "sizes alone" in told.assumed
    assert "4,096 tokens" in told.words
    assert len(hub.requests) == before


def test_what_does_not_run_says_why(hub: HubServer) -> None:
    hub.update(
        Repo(
            "org/other",
            {
                "config.json": b'{"model_type": "llama"}',
                "tokenizer.json": b"{}",
                "model.safetensors": HubFile(b"x" * 100, lfs=True),
                "m-IQ2_XS.gguf": HubFile(b"x", lfs=True),
                "m-Q8_0.gguf": HubFile(b"<html>" * 100, lfs=True),
            },
        )
    )
    details = opened("org/other")
    for key, why in (("safetensors", "hidden_size"), ("iq2_xs", "IQ2_XS"), ("q8_0", "GGUF")):
        told = judged(details, find_choice(details.choices.choices, key), GB, None, None)
        assert (told.verdict, told.fit) == ("does not run", None)
        assert why in told.words
        assert told.words.isprintable()


def test_a_hub_that_is_away_is_an_error(hub: HubServer) -> None:
    details = opened()
    hub.is_offline = True
    with pytest.raises(Unreachable):
        read_shape(HubClient(), details, details.choices.choices)


def test_counts_of_another_form_are_not_believed(hub: HubServer, model: Path) -> None:
    details = opened()
    choice = find_choice(details.choices.choices, "f32")
    assert known_elements(details, choice)
    wrong = replace(details, facts=replace(details.facts, elements={"U32": 10**9}))
    assert known_elements(wrong, choice) == {}
    assert known_elements(details, find_choice(details.choices.choices, "q4_k_m")) == {}
