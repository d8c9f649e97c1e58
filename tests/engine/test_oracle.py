"""The oracle finds fault with answers that are wrong, and with none that is right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine import EngineSettings, Generate, SamplingParams
from tests.engine.mix import samples
from tests.engine.oracle import checked_model
from tests.fakes.listener import running_engine

PROMPT = tuple(3 + 7 * place % 290 for place in range(40))


@pytest.mark.parametrize("bits", [None, 8], ids=["as computed", "8 bits"])
def test_a_wrong_token_log_probability_or_prompt_is_found(bits: int | None, tmp_path: Path) -> None:
    shape = {} if bits is None else {"head_dim": 32}
    model = checked_model(tmp_path, "llama", bits, **shape)
    asked = Generate(
        "a", tokens=PROMPT, max_tokens=9, sampling=SamplingParams(temperature=0), logprobs=0, ignore_eos=True
    )
    with running_engine(EngineSettings(prefill_chunk=16, kv_bits=bits)) as listener:
        listener.load(model.folder)
        listener.submit(asked)
        end = listener.finished("a")
    (right,) = samples(end)
    assert right.logprobs is not None

    def complaint(prompt: tuple[int, ...] = PROMPT, **changes: object) -> str:
        return model.oracle.complaint(asked, prompt, replace(right, **changes))

    assert complaint() == ""
    tokens = (*right.tokens[:4], (right.tokens[4] + 1) % 290, *right.tokens[5:])
    assert complaint(tokens=tokens).endswith(" of 9 is not the likeliest")
    assert complaint(tokens=right.tokens[:-1]) == "log-probabilities are of other tokens"
    entry = right.logprobs[6]
    moved = (*right.logprobs[:6], replace(entry, logprob=entry.logprob - 0.5), *right.logprobs[7:])
    assert complaint(logprobs=moved) == "the log-probability of token 6 of 9 is wrong"
    assert complaint((*PROMPT[:20], 5, *PROMPT[21:])) != ""
