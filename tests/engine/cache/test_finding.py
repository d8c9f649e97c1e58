"""What a request does with pages on SSD: which it reads, which it leaves, and when reading ends early."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.cache.self_check import SelfCheck
from engine.events.cache import CacheReport
from engine.events.events import Finished, PrefillProgress, Stats
from engine.kv.memory import KVMemory
from engine.kv.page_table import PageTable
from engine.kv.ssd.files import SsdFiles
from engine.kv.ssd.tier import SsdTier
from engine.prediction.foresight import Foresight
from engine.rest.tidying import FREE_AFTER, SPILL_AFTER
from tests.engine.served_model import Model, long_prompt
from tests.engine.watched import restore_always

TOKENS = long_prompt(0, 38)


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> None:
    restore_always(monkeypatch)


def stored(folder: Path, *chats: str, **changes: Any) -> tuple[Model, tuple[int, ...]]:
    """A model whose `chats` are all of TOKENS and on SSD alone, and what is answered.

    It reads a page at a time, or eight of a prompt that is alone.
    """
    model = Model(folder, folder / "kv", **changes)
    answers = {model.ask(chat, TOKENS, chat=chat)[0].tokens for chat in chats}
    model.rest(FREE_AFTER)
    assert model.model.tier is not None
    assert model.model.tier.flush(60)
    assert model.model.memory.cached_pages == 0
    restoring = model.model.memory._restoring
    assert restoring is not None
    restoring._run_pages = restoring._pages_at_once = 1
    (answer,) = answers
    return model, answer


def test_where_reading_what_a_window_sees_ends_early_all_of_it_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, answer = stored(tmp_path, "chat", family="mistral", sliding_window=320)
    read, left = SsdTier.read, [1]
    monkeypatch.setattr(SsdTier, "read", lambda *given: read(*given) if left and left.pop() else 0)
    end, report = model.ask("again", TOKENS, chat="chat")
    assert not left
    assert (report.cached_tokens, report.restored_tokens) == (0, 0)
    assert end.tokens == answer
    model.model.memory.check([])
    model.serving.close()


@pytest.mark.parametrize("good", [0, 1])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_of_a_file_that_goes_or_is_damaged_once_it_was_found_only_what_is_nowhere_else_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_damaged: bool, good: int
) -> None:
    """All of the chat is in one file, which is as it was for the first `good` reads of eight pages."""
    model, answer = stored(tmp_path, "chat")
    model.ask("other", (*TOKENS[:88], 5, 6, 7), chat="other")  # half a page is its own
    (path,) = (tmp_path / "kv").glob("*/*.safetensors")
    read, reads = SsdFiles.read, list[int]()

    def harmed(self: SsdFiles, *given: Any) -> bool:
        if len(reads) == good:
            path.write_bytes(path.read_bytes()[:-1] + b"?") if is_damaged else path.unlink()
        reads.append(1)
        return read(self, *given)

    monkeypatch.setattr(SsdFiles, "read", harmed)
    end, report = model.ask("again", TOKENS, chat="chat")
    came = good * (13 * 16 - 88)
    assert len(reads) == good + 1
    assert (report.cached_tokens, report.restored_tokens) == (88, came)
    assert (report.missed_from, report.reason) == (88 + came, "evicted")
    assert end.timing.prefill_tokens == len(TOKENS) - 88 - came
    assert end.tokens == answer
    model.model.memory.check([])
    model.rest(SPILL_AFTER)
    counts = [event.cache for event in model.events if isinstance(event, Stats)][-1]
    assert (counts.cached_tokens, counts.restored_tokens) == (88, 5 * 16 + came)  # the other's, too
    assert counts.quarantined_files == is_damaged
    assert model.model.tier is not None
    assert model.model.tier.flush(60)
    assert model.model.tier.usage.total_bytes == sum(
        file.stat().st_size for file in (tmp_path / "kv").glob("*/*.safetensors")
    )
    model.rest(FREE_AFTER)
    assert model.ask("once more", TOKENS, chat="chat")[1].restored_tokens == 37 * 16  # it was written anew
    model.serving.close()


def test_for_a_chat_that_was_forgotten_no_page_is_read_though_another_has_it(tmp_path: Path) -> None:
    model, answer = stored(tmp_path, "chat", "other")
    model.serving.add(model.request("sent", TOKENS, chat="chat"))
    model.serving.forget("chat")
    while model.serving.busy:
        model.serving.work()
    ends = {event.id: event.tokens for event in model.events if isinstance(event, Finished)}
    assert ends["sent"] == answer
    assert model.model.memory.counts.restored_pages == 0
    assert set(model.model.memory.chats()) == {"other"}
    model.serving.close()


def test_nothing_is_chosen_or_made_ready_for_a_prompt_of_which_the_ssd_has_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = list[Foresight]()
    model, _ = stored(tmp_path, "chat")
    monkeypatch.setattr(Foresight, "refused", lambda self: refused.append(self))
    for number, is_quicker in enumerate((True, False), 1):
        monkeypatch.setattr(Foresight, "should_restore", lambda *_, is_quicker=is_quicker: is_quicker)
        _, report = model.ask(f"new {number}", long_prompt(number, 20), chat="new")
        assert (report.cached_tokens, report.restored_tokens) == (0, 0)
        assert model.model.arena.unmet_bytes > 0
    assert not refused
    model.serving.close()


@pytest.mark.parametrize("sent", [1, 2])
def test_it_is_asked_of_what_is_read_next_whether_that_is_quicker_and_that_is_learned_from(
    sent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, read, learned = list[tuple[int, int]](), list[tuple[int, int]](), list[int]()
    model, _ = stored(tmp_path, "chat", "other")
    restore = KVMemory.restore

    def noted(self: KVMemory, table: PageTable, *given: Any, is_alone: bool) -> int:
        context = table.length
        read.append((restore(self, table, *given, is_alone=is_alone), context))
        return read[-1][0]

    def should(_: Foresight, tokens: int, context: int, read: int, met_bytes: int) -> bool:
        asked.append((tokens, context))
        return True

    for chat in ("chat", "other")[:sent]:  # of what is behind TOKENS it has nothing
        model.serving.add(model.request(chat, (*TOKENS, *TOKENS[:200]), chat=chat))
    monkeypatch.setattr(KVMemory, "restore", noted)
    monkeypatch.setattr(Foresight, "should_restore", should)
    monkeypatch.setattr(Foresight, "restored", lambda self, tokens, seconds: learned.append(tokens))
    while model.serving.busy:
        model.serving.work()
    assert asked == read
    assert learned == [tokens for tokens, _ in read]
    assert max(learned) == (16 if sent > 1 else 8 * 16)
    model.serving.close()


def test_a_chat_that_was_forgotten_while_it_was_asked_about_does_not_come_back_with_another_s_pages(
    tmp_path: Path,
) -> None:
    model, _ = stored(tmp_path, "chat", "other")
    model.serving.predict(model.request("?", TOKENS, chat="chat"))
    model.serving.forget("chat")
    model.rest(0.0)
    assert model.model.memory.counts.restored_pages == 0
    assert set(model.model.memory.chats()) == {"other"}
    model.serving.predict(model.request("?", TOKENS, chat="other"))
    model.serving.forget("chat")
    model.rest(0.0)
    assert model.model.memory.counts.restored_pages == 37
    model.serving.close()


def test_what_a_branch_shares_is_missed_when_it_is_gone(tmp_path: Path) -> None:
    model = Model(tmp_path, None)
    model.ask("first", TOKENS, chat="chat")
    model.serving.chats.share("branch", TOKENS)
    model.model.memory.evict_all()
    _, report = model.ask("again", TOKENS, chat="branch")
    assert (report.missed_from, report.reason) == (0, "evicted")


def test_of_what_was_forgotten_or_never_computed_nothing_is_missed(tmp_path: Path) -> None:
    """The last token of an answer is not computed: a template may put another one there."""
    model = Model(tmp_path, None)
    end, _ = model.ask("first", TOKENS, chat="chat")
    other = 3 + (end.tokens[-1] == 3)
    _, report = model.ask("next", (*TOKENS, *end.tokens[:-1], other, *range(10, 40)), chat="chat")
    assert (report.cached_tokens, report.reason) == (len(TOKENS) + len(end.tokens) - 1, None)
    model.serving.forget("chat")
    _, report = model.ask("again", TOKENS, chat="chat")
    assert (report.cached_tokens, report.reason) == (0, None)


def test_what_is_foretold_of_a_window_is_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By who predicts, by who is there already, and by who decides whether that is quicker."""
    should, first_token = list[tuple[int, ...]](), list[tuple[int, int]]()
    model, _ = stored(tmp_path, "chat", family="mistral", sliding_window=64)
    other = model.request("other", long_prompt(1, 3), answer=40, chat="other")
    model.serving.add(other)
    while not other.sequences[0].generated:
        model.serving.work()
    unmet = model.model.arena.unmet_bytes
    assert unmet > 0

    def decides(_: Foresight, *known: int) -> bool:
        should.append(known)
        return True

    def expects(_: Foresight, prompt: int, reused: int, read: int, *_others: object) -> float:
        first_token.append((reused, read))
        return 5.0

    monkeypatch.setattr(Foresight, "should_restore", decides)
    monkeypatch.setattr(Foresight, "first_token", expects)
    request = model.request("sent", TOKENS, chat="chat")
    told = model.serving.predict(request)
    assert (told.cached_tokens, told.restored_tokens, told.reason) == (0, 37 * 16, None)
    assert (other.sequences[0].reading, request.sequences[0].reading) == (0.0, 5.0)
    foretold = list(first_token)
    model.serving.add(request)
    while model.serving.busy:
        model.serving.work()
    read = 16 * model.model.memory.counts.restored_pages
    assert 0 < read < 37 * 16
    assert foretold == [(37 * 16, read)] * 2
    assert should[:3] == [(37 * 16, 0, read, unmet)] * 3
    model.serving.close()


@pytest.mark.parametrize("is_quicker", [True, False])
@pytest.mark.parametrize("wanted", [True, False, None])
def test_who_says_whether_pages_come_back_is_foretold_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: bool | None, is_quicker: bool
) -> None:
    model, _ = stored(tmp_path, "chat")
    monkeypatch.setattr(Foresight, "should_restore", lambda *_: is_quicker)
    request = model.request("sent", TOKENS, chat="chat")
    request.command = replace(request.command, restores=wanted)
    told = model.serving.predict(request)
    model.serving.add(request)
    while model.serving.busy:
        model.serving.work()
    is_read = is_quicker if wanted is None else wanted
    (report,) = (event for event in model.events if isinstance(event, CacheReport) and event.id == "sent")
    assert (report.cached_tokens, report.restored_tokens) == (0, 37 * 16 * is_read)
    assert (told.cached_tokens, told.restored_tokens) == (report.cached_tokens, report.restored_tokens)
    assert (told.missed_from, told.reason) == (report.missed_from, report.reason)
    model.serving.close()


def test_it_is_foretold_of_a_page_that_memory_has_in_part_that_all_of_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the first page of TOKENS it has 13 tokens: not three that would be read for nothing."""
    model, _ = stored(tmp_path, "chat")
    model.ask("other", (*TOKENS[:13], 5, 6, 7, 8), chat="other")
    asked = list[tuple[int, ...]]()
    monkeypatch.setattr(Foresight, "should_restore", lambda _, *known: asked.append(known) is None)
    told = model.serving.predict(model.request("?", TOKENS[:17], chat="chat"))
    _, report = model.ask("sent", TOKENS[:17], chat="chat")
    unmet = asked[0][-1]
    assert asked == [(16, 0, 16, unmet)] * 2
    assert (told.cached_tokens, told.restored_tokens) == (13, 3)
    assert (report.cached_tokens, report.restored_tokens) == (13, 3)
    model.serving.close()


def test_a_page_that_was_found_in_part_and_is_not_trusted_any_more_is_no_page_less_than_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, answer = stored(tmp_path, "chat", check_share=1.0)
    model.ask("other", (*TOKENS[:88], 5, 6, 7), chat="other")  # five pages and a half are in memory again
    with monkeypatch.context() as patch:  # not undone as a whole: pages are read back whatever is quicker
        patch.setattr(SelfCheck, "agrees", lambda *_: False)
        end, report = model.ask("again", TOKENS, chat="chat")
    assert (report.cached_tokens, report.restored_tokens) == (80, 0)
    assert end.tokens == answer
    assert model.model.tier is not None
    assert model.model.tier.quarantined_files > 0
    model.rest(FREE_AFTER)
    assert model.model.tier.flush(60)
    _, report = model.ask("once more", TOKENS, chat="chat")
    assert report.restored_tokens == 37 * 16  # what was computed anew is there
    model.serving.close()


@pytest.mark.parametrize(("price", "saved"), [(0.0, 37 * 16), (0.25, 0.75 * 37 * 16), (2.0, 0.0)])
def test_of_the_time_that_was_saved_reading_is_no_part(
    price: float, saved: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seconds a token; those that are computed take one."""

    def expected(_: Foresight, prompt: int, reused: int, read: int, *_others: object) -> float:
        return prompt - reused + price * read

    model, _ = stored(tmp_path, "chat")
    monkeypatch.setattr(Foresight, "first_token", expected)
    model.ask("again", TOKENS, chat="chat")
    stats = [event for event in model.events if isinstance(event, Stats)]
    assert stats[-1].cache.saved_seconds == saved
    model.serving.close()


def test_of_a_prompt_that_is_done_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Foresight, "first_token", lambda *_: 5.0)
    model = Model(tmp_path, None)
    model.ask("first", TOKENS)
    told = [event for event in model.events if isinstance(event, PrefillProgress)]
    assert (told[-1].done_tokens, told[-1].seconds) == (len(TOKENS), 0.0)
    assert all(event.seconds for event in told[:-1])
