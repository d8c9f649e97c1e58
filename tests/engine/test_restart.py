"""What chats have computed outlives the engine: it comes back from SSD, and is told as such."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from engine import (
    CacheReport,
    ChatsCached,
    EngineSettings,
    Event,
    Finished,
    Forget,
    Generate,
    History,
    LoadModel,
    Message,
    Pin,
    Predict,
    Predicted,
    SamplingParams,
    SsdSettings,
    TextChunk,
)
from engine.kv.ssd.folder import SsdFolder
from tests.engine.cold import Cold
from tests.engine.kv.spilled import owners_in
from tests.engine.watched import restore_always
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model

PROMPT = tuple(3 + (7 * place) % 290 for place in range(200))
GUIDE = Path(__file__).resolve().parents[2] / "resources" / "guide" / "model"
GREEDY = SamplingParams(temperature=0)


@pytest.fixture(autouse=True)
def _restores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is quicker on this machine: these tests are of what comes back."""
    restore_always(monkeypatch)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("models") / "tiny")


def settings(folder: Path, **more: object) -> EngineSettings:
    ssd = SsdSettings(folder / "kv", cap_bytes=64 << 20, floor_bytes=0)
    return EngineSettings(ssd=ssd, prefill_chunk=64, cache=folder / "cache", **more)  # type: ignore[arg-type]


def ask(
    listener: Listener, name: str, tokens: tuple[int, ...], chat: str = "c"
) -> tuple[Finished, CacheReport]:
    listener.submit(Generate(name, tokens=tokens, max_tokens=8, sampling=GREEDY, ignore_eos=True, chat=chat))
    end = listener.finished(name)
    (report,) = (e for e in listener.events if isinstance(e, CacheReport) and e.id == name)
    return end, report


def predicted(listener: Listener, name: str, tokens: tuple[int, ...], chat: str = "c") -> Predicted:
    listener.submit(Predict(Generate(name, tokens=tokens, chat=chat)))
    event = listener.wait(lambda event: isinstance(event, Predicted) and event.id == name)
    assert isinstance(event, Predicted)
    return event


def test_pages_come_back_after_a_restart(tiny: Path, tmp_path: Path) -> None:
    with running_engine(settings(tmp_path)) as listener:
        listener.load(tiny)
        first, report = ask(listener, "a", PROMPT)
        assert (report.cached_tokens, report.restored_tokens) == (0, 0)
    with running_engine(settings(tmp_path)) as listener:
        listener.load(tiny)
        told = predicted(listener, "p", PROMPT)
        again, report = ask(listener, "b", PROMPT)
    assert (told.cached_tokens, told.restored_tokens) == (0, 192)
    assert (report.cached_tokens, report.restored_tokens) == (0, 192)
    assert again.timing.prefill_tokens == 8
    assert again.timing.cached_tokens == 192
    assert again.tokens == first.tokens
    assert Cold(tiny).accepts(PROMPT, again.tokens)


def change_middles(file: Path) -> None:
    """All values but the first and last 1,024 of each larger tensor become half as large again, in place."""
    length = int.from_bytes(file.read_bytes()[:8], "little")
    header = json.loads(file.read_bytes()[8 : 8 + length])
    weights = np.memmap(file, np.float32, "r+", offset=8 + length)
    for entry in header.values():
        begin, end = (place // 4 for place in entry["data_offsets"])
        weights[begin + 1024 : max(begin + 1024, end - 1024)] *= np.float32(1.5)
    weights.flush()


def test_a_model_that_was_changed_in_the_middle_of_its_tensors_gets_none_of_the_others_pages(
    tmp_path: Path,
) -> None:
    model = write_random_model(tmp_path / "m", hidden_size=128, intermediate_size=192)
    with running_engine(settings(tmp_path)) as listener:
        listener.load(model)
        before, _ = ask(listener, "a", PROMPT)
    change_middles(model / "model.safetensors")
    with running_engine(settings(tmp_path)) as listener:
        listener.load(model)
        after, report = ask(listener, "b", PROMPT)
    assert (report.cached_tokens, report.restored_tokens) == (0, 0)
    assert after.tokens != before.tokens
    assert Cold(model).accepts(PROMPT, after.tokens)


@pytest.mark.parametrize("is_quicker", [True, False])
def test_files_of_a_prompt_that_was_asked_about_are_fetched_where_they_will_be_read(
    is_quicker: bool, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_engine(settings(tmp_path)) as listener:
        listener.load(tiny)
        ask(listener, "a", PROMPT)
    fetched: list[Path] = []
    monkeypatch.setattr("engine.kv.ssd.files.fetch", fetched.append)
    monkeypatch.setattr("engine.kv.ssd.reader.SideBySide.later", lambda _, work: work())  # before the answer
    monkeypatch.setattr("engine.prediction.foresight.Foresight.should_restore", lambda *_: is_quicker)
    with running_engine(settings(tmp_path)) as listener:
        listener.load(tiny)
        predicted(listener, "p", PROMPT)
        assert sorted(fetched) == sorted((tmp_path / "kv").rglob("*.safetensors")) * is_quicker


def test_where_memory_is_hidden_nothing_is_kept_on_ssd_and_it_says_so(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("engine.loading.model.takes_pages", lambda *_: False)
    for _ in range(2):
        with running_engine(settings(tmp_path)) as listener:
            listener.load(tiny)
            end, report = ask(listener, "a", PROMPT)
            assert (report.cached_tokens, report.restored_tokens) == (0, 0)
            assert Cold(tiny).accepts(PROMPT, end.tokens)
    assert "pages are not kept on SSD" in caplog.text
    assert not list(tmp_path.rglob("*.safetensors"))


def test_another_model_finds_nothing(tiny: Path, tmp_path: Path) -> None:
    with running_engine(settings(tmp_path)) as listener:
        listener.load(tiny)
        ask(listener, "a", PROMPT)
    other = write_random_model(tmp_path / "other", seed=1)
    with running_engine(settings(tmp_path)) as listener:
        listener.load(other)
        end, report = ask(listener, "b", PROMPT)
    assert (report.cached_tokens, report.restored_tokens) == (0, 0)
    assert Cold(other).accepts(PROMPT, end.tokens)


def test_what_was_evicted_is_restored_in_the_same_run(tiny: Path, tmp_path: Path) -> None:
    others = [tuple(3 + (11 * place + 31 * seed) % 290 for place in range(200)) for seed in range(1, 4)]
    with running_engine(settings(tmp_path, kv_pages=20)) as listener:
        listener.load(tiny)
        first, _ = ask(listener, "a", PROMPT)
        for number, other in enumerate(others):
            ask(listener, f"o{number}", other, chat=f"o{number}")
        again, report = ask(listener, "b", PROMPT)
    assert report.cached_tokens + report.restored_tokens >= 192
    assert report.restored_tokens > 0
    assert report.reason is None
    assert again.tokens == first.tokens


def test_without_a_disk_what_was_evicted_is_a_miss_with_its_reason(tiny: Path) -> None:
    with running_engine(EngineSettings(kv_pages=20, prefill_chunk=64)) as listener:
        listener.load(tiny)
        ask(listener, "a", PROMPT)
        other = tuple(reversed(PROMPT))
        ask(listener, "o", other, chat="o")
        _, report = ask(listener, "b", PROMPT)
    assert report.reason == "evicted"
    assert report.missed_from == report.cached_tokens < 199


def test_a_branch_that_was_evicted_while_another_went_on_is_a_miss_with_its_reason(tiny: Path) -> None:
    left, right = (*PROMPT[:96], *PROMPT[:64]), (*PROMPT[:96], *PROMPT[100:164])
    with running_engine(EngineSettings(kv_pages=13, prefill_chunk=64)) as listener:
        listener.load(tiny)
        for name, tokens in (("l", left), ("r", right)):
            ask(listener, name, tokens)
        _, report = ask(listener, "again", left)
    assert report.reason == "evicted"
    assert report.missed_from == report.cached_tokens < len(left) - 16


@pytest.mark.parametrize("has_disk", [True, False])
def test_a_chat_that_was_not_kept_over_a_restart_is_a_miss_with_its_reason(
    has_disk: bool, tmp_path: Path
) -> None:
    question = Message("user", "What does MLXR keep of a chat when I quit it, and where?")
    with running_engine(settings(tmp_path)) as listener:
        listener.load(GUIDE)
        listener.submit(Generate("a", messages=(question,), sampling=GREEDY, chat="c"))
        first = listener.finished("a")
    told = (question, Message("assistant", first.text), Message("user", "And then?"))
    history = History((*first.prompt_tokens, *first.tokens), 2, str(GUIDE))
    with running_engine(settings(tmp_path) if has_disk else EngineSettings()) as listener:
        listener.load(GUIDE)
        listener.submit(Generate("b", messages=told, history=history, max_tokens=4, chat="c"))
        listener.finished("b")
        (report,) = (event for event in listener.events if isinstance(event, CacheReport))
    if has_disk:
        assert report.restored_tokens > 0
        assert (report.missed_from, report.reason) == (None, None)
    else:
        assert (report.missed_from, report.reason) == (0, "evicted")


def test_a_pinned_chat_stays_in_memory_and_a_forgotten_one_does_not(tiny: Path, tmp_path: Path) -> None:
    with running_engine(settings(tmp_path, kv_pages=32)) as listener:
        listener.load(tiny)
        ask(listener, "a", PROMPT)
        listener.submit(Pin("c", True))
        for seed in range(1, 5):
            ask(listener, f"o{seed}", tuple(3 + (5 * p + seed) % 290 for p in range(200)), chat=f"o{seed}")
        assert predicted(listener, "p", PROMPT).cached_tokens == 199
        listener.submit(Pin("c", False))
        listener.submit(Forget("c"))
        told = predicted(listener, "q", PROMPT)
        assert (told.cached_tokens, told.restored_tokens) == (0, 0)
    chats = [event for event in listener.drain() if isinstance(event, ChatsCached)]
    assert "c" not in chats[-1].chats
    assert {"o4"} <= set(chats[-1].chats)


@pytest.mark.parametrize("moment", [None, CacheReport, TextChunk])
@pytest.mark.parametrize("n", [1, 3])
def test_what_runs_for_a_chat_that_is_forgotten_is_answered_and_not_kept(
    n: int, moment: type[Event] | None, tiny: Path, tmp_path: Path
) -> None:
    """In the queue, while its prompt is read, and while it is answered; another chat has its first pages."""
    asked = Generate("a", tokens=PROMPT, max_tokens=40, sampling=GREEDY, ignore_eos=True, chat="c", n=n)
    with running_engine(settings(tmp_path)) as listener:
        listener.load(tiny)
        ask(listener, "first", PROMPT[:100], chat="d")
    with running_engine(settings(tmp_path)) as listener:
        listener.load(tiny)
        if moment is not None:
            listener.submit_at(lambda event: isinstance(event, moment) and event.id == "a", Forget("c"))
        with listener.held():
            listener.submit(asked)
            if moment is None:
                listener.submit(Forget("c"))
        end = listener.finished("a")
        assert len(end.tokens) == 40
        assert Cold(tiny).accepts(PROMPT, end.tokens)
        told = predicted(listener, "p", PROMPT)
        assert told.cached_tokens + told.restored_tokens == 96, "the other's whole pages"
    chats = [event for event in listener.drain() if isinstance(event, ChatsCached)]
    assert set(chats[-1].chats) == {"d"}
    assert owners_in(tmp_path / "kv") == {"d"}


def test_a_request_that_pinned_pages_leave_no_room_for_is_told_what_would_help(tiny: Path) -> None:
    with running_engine(EngineSettings(kv_pages=20)) as listener:
        listener.load(tiny)
        ask(listener, "a", PROMPT)
        listener.submit(Pin("c", True))
        listener.submit(Generate("b", tokens=tuple(reversed(PROMPT)), max_tokens=4, chat="d"))
        failed = listener.failed("b")
        assert failed.kind == "Refused"
        assert failed.refusal is not None
        assert (failed.refusal.needed_pages, failed.refusal.available_pages) == (13, 7)
        assert failed.refusal.pinned_pages == 13, "7 is not all that KV memory has"
        kinds = {way.kind: way for way in failed.refusal.ways_out}
        assert kinds["evict"].chat == "c"
        assert kinds["evict"].amount == 13
        shorter = 200 - kinds["shorten"].amount
        listener.submit(Generate("s", tokens=tuple(reversed(PROMPT))[:shorter], max_tokens=1, chat="d"))
        listener.finished("s")
        listener.submit(Pin("c", False))
        listener.submit(Generate("e", tokens=tuple(reversed(PROMPT)), max_tokens=4, chat="d"))
        listener.finished("e")


def test_pages_that_pinned_chats_share_are_counted_once(tiny: Path) -> None:
    with running_engine(EngineSettings(kv_pages=20)) as listener:
        listener.load(tiny)
        for chat in ("c", "twin"):
            ask(listener, chat, PROMPT, chat=chat)
            listener.submit(Pin(chat, True))
        other = tuple(reversed(PROMPT))
        listener.submit(Generate("b", tokens=other, max_tokens=4, chat="d"))
        refusal = listener.failed("b").refusal
        assert refusal is not None
        assert (refusal.needed_pages, refusal.available_pages) == (13, 7)
        assert {(way.chat, way.amount) for way in refusal.ways_out if way.kind == "evict"} == {
            ("c", 13),
            ("twin", 13),
        }
        listener.submit(Generate("s", tokens=other[:96], max_tokens=1, chat="d"))
        listener.finished("s")


def test_a_chat_forgotten_while_no_model_is_loaded_is_gone(tiny: Path, tmp_path: Path) -> None:
    with running_engine(settings(tmp_path)) as listener:
        listener.load(tiny)
        ask(listener, "a", PROMPT)
    with running_engine(settings(tmp_path)) as listener:
        listener.submit(Forget("c"))
        listener.load(tiny)
        assert predicted(listener, "p", PROMPT).restored_tokens == 0


@pytest.mark.usefixtures("forgotten_on_the_spot")
def test_what_is_forgotten_while_no_model_is_loaded_is_gone_at_once(tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kv"
    with running_engine(settings(tmp_path)) as listener:
        listener.load(tiny)
        ask(listener, "a", PROMPT)
        ask(listener, "b", PROMPT[::-1], chat="d")
    with running_engine(settings(tmp_path)) as listener:
        listener.submit(Forget("c"))
        listener.submit(LoadModel("bad", str(tmp_path / "nothing")))
        listener.failed("bad")
        assert owners_in(folder) == {"d"}


@pytest.mark.usefixtures("forgotten_on_the_spot")
@pytest.mark.parametrize("is_loaded_then", [False, True])
def test_what_is_forgotten_while_another_process_writes_goes_later(
    is_loaded_then: bool,
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = tmp_path / "kv"
    monkeypatch.setattr("engine.kv.ssd.folder._LOCK_S", 0.0)
    with running_engine(settings(tmp_path)) as listener:
        listener.load(tiny)
        ask(listener, "a", PROMPT)
    with running_engine(settings(tmp_path)) as listener:
        with SsdFolder(folder, "", shutil.disk_usage).locked():
            listener.submit(Forget("c"))
            listener.submit(LoadModel("bad", str(tmp_path / "nothing")))
            listener.failed("bad")
            assert owners_in(folder) == {"c"}
        assert "another process is writing there" in caplog.text
        if is_loaded_then:
            listener.load(tiny)
            assert predicted(listener, "p", PROMPT).restored_tokens == 0
    assert owners_in(folder) == set()


def test_a_new_model_says_at_once_where_chats_lie(tiny: Path, tmp_path: Path) -> None:
    with running_engine(settings(tmp_path)) as listener:
        listener.load(tiny)
        ask(listener, "a", PROMPT)
        listener.load(tiny, "again")
        told = listener.wait(lambda event: isinstance(event, ChatsCached))
        assert isinstance(told, ChatsCached)
        assert told.chats["c"].memory_bytes == 0
        assert told.chats["c"].ssd_bytes > 0
