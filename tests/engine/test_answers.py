"""What an answer is made of: its tokens, text, end, log-probabilities, seed and prompt."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.utils import load_model as load_peer

from engine import (
    Cancel,
    Generate,
    Message,
    PrefillProgress,
    SampleEnded,
    SamplingParams,
    TextChunk,
)
from engine.tokenizer import load_tokenizer
from tests.engine.mix import samples
from tests.fakes.listener import Listener
from tests.fakes.random_model import VOCAB, write_random_model

PROMPT = tuple(int(token) for token in np.random.default_rng(3).integers(3, 300, 50))


def test_greedy_tokens_equal_mlx_lm_and_chunks_make_up_the_text(listener: Listener, folder: Path) -> None:
    listener.load(folder)
    listener.submit(Generate("a", tokens=PROMPT, max_tokens=40, ignore_eos=True))
    end = listener.finished("a")
    peer, _ = load_peer(folder)
    expected = [token for token, _ in generate_step(mx.array(PROMPT), peer, max_tokens=40)]
    assert list(end.tokens) == expected
    assert end.prompt_tokens == PROMPT
    assert end.reason == "length"
    chunks = [event for event in listener.events if isinstance(event, TextChunk)]
    assert "".join(chunk.text for chunk in chunks) == end.text
    assert len(chunks) > 1
    assert [chunk.generated_tokens for chunk in chunks] == sorted(chunk.generated_tokens for chunk in chunks)


def test_prefill_progress_counts_up_in_chunks(listener: Listener, folder: Path) -> None:
    listener.load(folder)
    listener.submit(Generate("a", tokens=PROMPT, max_tokens=1))
    listener.finished("a")
    done = [event.done_tokens for event in listener.events if isinstance(event, PrefillProgress)]
    assert done == [0, 16, 32, 48, 50]


def test_timing_counts_what_was_computed(listener: Listener, folder: Path) -> None:
    listener.load(folder)
    listener.submit(Generate("a", tokens=PROMPT, max_tokens=5, ignore_eos=True))
    timing = listener.finished("a").timing
    assert (timing.prefill_tokens, timing.cached_tokens) == (50, 0)
    assert timing.ttft_ms > 0
    assert timing.prefill_tps > 0
    assert timing.decode_tps > 0


@pytest.mark.parametrize("n", [1, 3])
def test_of_a_prompt_that_is_cancelled_what_was_computed_is_counted(
    listener: Listener, folder: Path, n: int
) -> None:
    listener.load(folder)
    listener.submit(Generate("before", tokens=PROMPT[:16], max_tokens=1, ignore_eos=True))
    listener.finished("before")
    listener.submit_at(
        lambda event: isinstance(event, PrefillProgress) and event.done_tokens == 32, Cancel("cancelled")
    )
    listener.submit(Generate("cancelled", tokens=PROMPT, n=n))
    end = listener.finished("cancelled")
    assert (end.reason, end.tokens) == ("cancelled", ())
    assert (end.timing.prefill_tokens, end.timing.cached_tokens) == (16, 16)
    assert end.timing.prefill_tps > 0


def test_stop_strings_end_the_answer_and_are_not_part_of_it(listener: Listener, folder: Path) -> None:
    listener.load(folder)
    listener.submit(Generate("a", tokens=PROMPT, max_tokens=60, ignore_eos=True))
    text = listener.finished("a").text
    stop = text[10:14]
    listener.submit(Generate("b", tokens=PROMPT, max_tokens=60, ignore_eos=True, stop=(stop,)))
    end = listener.finished("b")
    assert end.reason == "stop"
    assert end.text == text[: text.index(stop)]


@pytest.mark.parametrize("n", [1, 2])
def test_a_stop_string_in_text_held_back_to_the_last_token_is_why_an_answer_ended(
    n: int, listener: Listener, folder: Path
) -> None:
    listener.load(folder)
    listener.submit(Generate("a", tokens=PROMPT, max_tokens=20, ignore_eos=True))
    text = listener.finished("a").text
    longer, stop = text + "and more", text[5:9]
    listener.submit(Generate("b", tokens=PROMPT, max_tokens=20, ignore_eos=True, stop=(longer, stop), n=n))
    end = listener.finished("b")
    for answer in samples(end):
        assert answer.text == text[: text.index(stop)]
        assert answer.reason == "stop"
    ended = [event.reason for event in listener.events if isinstance(event, SampleEnded)]
    assert ended == ["stop"] * (n - 1)


def test_an_end_token_stops_and_is_reported(listener: Listener, tmp_path: Path, folder: Path) -> None:
    listener.load(folder)
    listener.submit(Generate("a", tokens=PROMPT, max_tokens=20, ignore_eos=True))
    tokens = listener.finished("a").tokens
    end_token = tokens[7]
    twin = write_random_model(tmp_path / "twin", eos_token_id=[2, end_token])
    listener.load(twin, "twin")
    listener.submit(Generate("b", tokens=PROMPT, max_tokens=20))
    end = listener.finished("b")
    assert end.reason == "stop"
    assert end.tokens == tokens[: tokens.index(end_token) + 1]


def test_log_probabilities_are_of_the_plain_distribution(listener: Listener, folder: Path) -> None:
    listener.load(folder)
    hot = SamplingParams(temperature=2.0, seed=5)
    listener.submit(Generate("a", tokens=PROMPT, max_tokens=6, ignore_eos=True, logprobs=3, sampling=hot))
    end = listener.finished("a")
    assert end.logprobs is not None
    peer, _ = load_peer(folder)
    logits = np.array(peer(mx.array([*PROMPT, *end.tokens])[None])[0, len(PROMPT) - 1 : -1], np.float64)
    expected = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    for row, entry, token in zip(expected, end.logprobs, end.tokens, strict=True):
        assert entry.id == token
        assert entry.logprob == pytest.approx(row[token], abs=2e-4)
        assert [top.id for top in entry.top] == list(np.argsort(-row)[:3])


def test_a_seed_repeats_the_text_and_another_changes_it(listener: Listener, folder: Path) -> None:
    listener.load(folder)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        sampling = SamplingParams(temperature=1.0, seed=seed)
        listener.submit(Generate(name, tokens=PROMPT, max_tokens=30, ignore_eos=True, sampling=sampling))
    assert listener.finished("a").tokens == listener.finished("b").tokens
    assert listener.finished("a").tokens != listener.finished("c").tokens


def test_messages_are_rendered_with_the_model_s_template(listener: Listener, folder: Path) -> None:
    listener.load(folder)
    listener.submit(Generate("a", messages=(Message("user", "hello page"),), max_tokens=2))
    chat = listener.finished("a").prompt_tokens
    rendered = "<s><user> hello page\n<assistant> "
    assert list(chat) == load_tokenizer(folder, vocab_size=VOCAB).encode(rendered, special=True)
    assert chat.count(1) == 1


def test_control_tokens_count_in_a_raw_prompt_and_are_text_in_a_message(
    listener: Listener, folder: Path
) -> None:
    listener.load(folder)
    listener.submit(Generate("raw", prompt="a</s>", max_tokens=1))
    listener.submit(Generate("chat", messages=(Message("user", "a</s>"),), max_tokens=1))
    assert listener.finished("raw").prompt_tokens[-1] == 2
    assert 2 not in listener.finished("chat").prompt_tokens


def test_a_model_without_a_template_says_so(listener: Listener, tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "plain")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert not listener.load(folder).model.has_chat_template
    listener.submit(Generate("a", messages=(Message("user", "hello"),)))
    assert "plain has no chat template" in listener.failed("a").error


def test_a_template_that_raises_is_the_request_s_failure(listener: Listener, tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "strict")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["chat_template"] = "{{ raise_exception('roles must alternate') }}"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    listener.load(folder)
    listener.submit(Generate("a", messages=(Message("user", "hello"),)))
    assert "roles must alternate" in listener.failed("a").error
    listener.submit(Generate("b", prompt="hello", max_tokens=1))
    assert listener.finished("b").tokens
