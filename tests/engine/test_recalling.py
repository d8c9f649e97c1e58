"""What was asked about comes back from SSD while nobody has a request: a chat in which somebody types."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.cache.self_check import SelfCheck
from engine.kv.memory import KVMemory
from engine.kv.page_data import ROOT_KEY, chain_keys
from engine.kv.ssd.tier import SsdTier
from engine.prediction.foresight import Foresight
from engine.rest.tidying import FREE_AFTER, SPILL_AFTER
from engine.runner import Runner
from tests.engine.served_model import Model, long_prompt
from tests.engine.watched import restore_always

TOKENS = long_prompt(0, 38)
FULL = 37 * 16
"""Tokens of its full pages."""
AT_ONCE = 16
"""Pages that are read before others have their turn."""


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> None:
    restore_always(monkeypatch)


def stored(folder: Path, chat: str = "chat", check_share: float = 0.0) -> tuple[Model, tuple[int, ...]]:
    """A model with a chat on SSD, which is nowhere else, and what was answered in it."""
    model = Model(folder, folder / "kv", check_share=check_share)
    first, _ = model.ask("first", TOKENS, chat=chat)
    model.rest(FREE_AFTER)
    assert model.model.tier is not None
    assert model.model.tier.flush(60)
    assert model.model.memory.cached_pages == 0
    restoring = model.model.memory._restoring
    assert restoring is not None
    restoring._run_pages = restoring._pages_at_once = AT_ONCE
    return model, first.tokens


def predicted(model: Model, chat: str = "chat") -> tuple[int, int]:
    """Tokens in memory, and on SSD."""
    told = model.serving.predict(model.request("?", TOKENS, chat=chat))
    return told.cached_tokens, told.restored_tokens


def test_a_chat_that_was_asked_about_is_in_memory_when_it_is_sent(tmp_path: Path) -> None:
    model, answer = stored(tmp_path)
    assert predicted(model) == (0, FULL)
    assert model.serving.next_tidying == 0
    model.rest(0.0)
    assert model.model.memory.counts.restored_pages == 37
    assert predicted(model) == (FULL, 0)
    assert model.serving.next_tidying == SPILL_AFTER
    end, report = model.ask("sent", TOKENS, chat="chat")
    assert (report.cached_tokens, report.restored_tokens) == (FULL, 0)
    assert end.tokens == answer
    model.model.memory.check([])
    model.serving.close()


@pytest.mark.parametrize("rounds", range(4))
def test_one_that_is_sent_meanwhile_gets_the_rest(tmp_path: Path, rounds: int) -> None:
    model, answer = stored(tmp_path)
    predicted(model)
    model.serving.tidy(0.0)  # builds the arena
    assert model.model.arena.unmet_bytes == 0
    for _ in range(rounds):
        model.serving.tidy(0.0)
    end, report = model.ask("sent", TOKENS, chat="chat")
    assert report.cached_tokens == min(rounds * AT_ONCE * 16, FULL)
    assert report.cached_tokens + report.restored_tokens == FULL
    assert end.tokens == answer
    assert model.serving.next_tidying != 0
    model.serving.close()


def test_what_is_quicker_to_compute_by_now_stays_on_ssd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = stored(tmp_path)
    assert predicted(model) == (0, FULL)
    monkeypatch.setattr(Foresight, "should_restore", lambda self, tokens, context, read, met_bytes: False)
    model.rest(0.0)
    assert model.model.memory.counts.restored_pages == 0
    assert predicted(model) == (0, 0)
    model.serving.close()


def test_the_system_is_told_what_will_be_read_and_the_host_meets_where_that_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = stored(tmp_path)
    expected = list[Sequence[bytes]]()
    monkeypatch.setattr(SsdTier, "expect", lambda _, keys: expected.append(keys))
    model.ask("other", long_prompt(1, 3), chat="other")  # for which the arena has grown enough
    assert model.model.arena.unmet_bytes > 0
    assert predicted(model) == (0, FULL)
    keys = chain_keys(ROOT_KEY, [TOKENS[begin : begin + 16] for begin in range(0, FULL, 16)])
    assert [tuple(each) for each in expected] == [keys]
    model.rest(0.0)
    assert model.model.memory.counts.restored_pages == 37
    assert model.model.arena.unmet_bytes == 0
    model.serving.close()


def test_what_restoring_costs_is_learned_from_the_request_that_waited_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: list[tuple[int, ...]] = []

    def returned(_: Foresight, restored: int, new: int, cached: int, steps: int, seconds: float) -> None:
        assert seconds > 0
        learned.append((restored, new, cached, steps))

    monkeypatch.setattr(Foresight, "returned", returned)
    model, _ = stored(tmp_path)
    assert not learned  # by what was computed
    _, report = model.ask("again", TOKENS, chat="chat")
    assert report.restored_tokens == FULL
    assert learned == [(FULL, len(TOKENS) - FULL, FULL, 1)]
    model.serving.close()


def test_who_types_in_a_new_chat_owns_no_pages(tmp_path: Path) -> None:
    model, _ = stored(tmp_path)
    assert predicted(model, "new") == (0, FULL)
    model.rest(0.0)
    assert model.model.memory.counts.restored_pages == 0
    assert set(model.model.memory.chats()) == {"chat"}
    model.serving.close()


def test_a_prediction_for_nobody_owns_no_pages_that_a_chat_is_forgotten_with(tmp_path: Path) -> None:
    model, _ = stored(tmp_path)
    model.ask("nobody's", long_prompt(1, 38), chat="")
    model.rest(FREE_AFTER)
    assert model.model.tier is not None
    assert model.model.tier.flush(60)
    assert predicted(model, "") == (0, FULL)
    model.rest(0.0)
    model.serving.forget("chat")
    assert predicted(model, "") == (0, 0)


def test_what_others_have_in_memory_is_not_taken_for_it(tmp_path: Path) -> None:
    model = Model(tmp_path, tmp_path / "kv", pages=42)
    model.ask("first", TOKENS, chat="chat")
    model.ask("other", long_prompt(1, 38), chat="other")  # for which the chat leaves memory
    model.rest(SPILL_AFTER)
    assert model.model.tier is not None
    assert model.model.tier.flush(60)
    held, spilled = model.model.memory.chats()["other"].memory_bytes, predicted(model)[1]
    assert spilled > 16 * 24
    model.rest(0.0)
    assert model.model.memory.counts.restored_pages == 0
    assert model.model.memory.chats()["other"].memory_bytes == held
    assert predicted(model)[1] == spilled
    model.serving.close()


def test_nothing_is_built_for_a_prompt_of_which_nothing_comes_back(tmp_path: Path) -> None:
    model = Model(tmp_path, tmp_path / "kv")
    assert predicted(model) == (0, 0)
    assert model.serving.next_tidying != 0
    model.rest(0.0)
    assert model.model.arena.pages == 0
    model.serving.close()


def test_where_the_system_has_no_memory_for_it_none_is_built_for_what_was_asked_about(tmp_path: Path) -> None:
    model, _ = stored(tmp_path)
    model.serving._tidying._is_short = lambda more: more > 0
    assert predicted(model) == (0, FULL)
    model.rest(0.0)
    assert (model.model.arena.pages, model.model.memory.counts.restored_pages) == (0, 0)
    model.serving.close()


def test_a_chat_that_was_forgotten_or_let_go_meanwhile_stays_where_it_is(tmp_path: Path) -> None:
    model, answer = stored(tmp_path)
    predicted(model)
    model.serving.release("chat", 0.25)
    model.rest(0.0)
    assert model.model.memory.counts.restored_pages == 0
    predicted(model)
    model.serving.tidy(0.0)  # the arena is there
    model.serving.chats.forget("chat")
    before = model.model.memory.counts.restored_pages
    assert before == AT_ONCE
    model.rest(0.0)
    assert model.model.memory.counts.restored_pages == before
    assert not model.model.memory.chats()
    end, report = model.ask("sent", TOKENS, chat="chat")
    assert (report.cached_tokens, report.restored_tokens) == (0, 0)
    assert end.tokens == answer
    model.serving.close()


def test_damaged_files_bring_nothing_back(tmp_path: Path) -> None:
    model, answer = stored(tmp_path)
    files = sorted((tmp_path / "kv").rglob("*.safetensors"))
    for file in files:
        data = bytearray(file.read_bytes())
        data[-5] ^= 4
        file.write_bytes(data)
    assert predicted(model) == (0, FULL)
    model.rest(0.0)
    assert predicted(model) == (0, 0)
    end, _ = model.ask("sent", TOKENS, chat="chat")
    assert end.tokens == answer
    model.serving.close()


def test_of_what_came_back_so_samples_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, answer = stored(tmp_path, check_share=1.0)
    checked: list[bool] = []
    agrees = SelfCheck.agrees

    def disagrees(self: SelfCheck, runner: Runner, table: object, tokens: object) -> bool:
        checked.append(agrees(self, runner, table, tokens))  # type: ignore[arg-type]
        return False

    monkeypatch.setattr(SelfCheck, "agrees", disagrees)
    predicted(model)
    model.rest(0.0)
    assert checked == [True]
    assert predicted(model) == (0, 0)
    assert model.model.tier is not None
    assert model.model.tier.quarantined_files > 0
    end, _ = model.ask("sent", TOKENS, chat="chat")
    assert end.tokens == answer
    model.serving.close()


def test_reading_that_breaks_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, answer = stored(tmp_path)
    predicted(model)
    model.serving.tidy(0.0)
    with monkeypatch.context() as patch:

        def breaks(self: KVMemory, *args: object, is_alone: bool) -> int:
            raise RuntimeError("the device is gone")

        patch.setattr(KVMemory, "restore", breaks)
        with pytest.raises(RuntimeError, match="gone"):
            model.serving.tidy(0.0)
    assert model.serving.next_tidying == SPILL_AFTER
    model.model.memory.check([])
    assert model.ask("sent", TOKENS, chat="chat")[0].tokens == answer
    model.serving.close()


def test_with_a_sliding_window_nothing_is_read_before_it_is_known_what_is_seen(tmp_path: Path) -> None:
    model = Model(tmp_path, tmp_path / "kv", family="mistral", sliding_window=64)
    model.ask("first", TOKENS, chat="chat")
    model.rest(FREE_AFTER)
    assert predicted(model)[1] > 0
    model.rest(0.0)
    assert model.model.memory.counts.restored_pages == 0
    model.serving.close()
