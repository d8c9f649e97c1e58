"""Checked drafts against decoding token by token: the same tokens, and the law that these follow."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.layers.ops import pick
from engine.sampling.device import Sampler
from engine.sampling.params import SamplingParams
from engine.speculation.copying import CopyGain
from engine.speculation.costs import StepCosts
from engine.speculation.draft import LENGTHS, MOST_DRAFTED, Draft
from engine.speculation.lookup import PromptLookup
from engine.speculation.verify import Verdict, settled, verify

VOCAB = 5
PROMPT = (3, 1)
Model = Callable[[Sequence[int]], np.ndarray]
Drafting = Callable[[list[int]], Draft]


def some_model(seed: int, *, ties: bool = False) -> Model:
    """Logits (VOCAB,) float32 that depend on the two newest tokens."""
    table = np.random.default_rng(seed).normal(scale=1.5, size=(VOCAB, VOCAB, VOCAB))
    table = (np.round(table) if ties else table).astype(np.float32)
    return lambda sequence: table[tuple(sequence[-2:])]


def check(model: Model, sampler: Sampler, answer: Sequence[int], draft: Draft) -> Verdict:
    """One step of the model on the last token and the draft, and what comes of it."""
    sequence = [*PROMPT, *answer, *draft.tokens]
    rows = [model(sequence[:end]) for end in range(len(sequence) - len(draft.tokens), len(sequence) + 1)]
    return verify(mx.array(np.array(rows)), draft, sampler, answer, PROMPT).read()


def speculated(model: Model, sampler: Sampler, drafting: Drafting, length: int) -> list[int]:
    """At least `length` tokens, decoded with drafts."""
    answer = list[int]()
    while len(answer) < length:
        draft = drafting(answer)
        verdict = check(model, sampler, answer, draft)
        assert verdict.is_finite
        assert verdict.tokens[:-1] == draft.tokens[: verdict.accepted]
        answer += verdict.tokens
    return answer


def plain(model: Model, params: SamplingParams, length: int) -> list[int]:
    """The answer of decoding token by token."""
    sampler, answer = Sampler(params, VOCAB), list[int]()
    while len(answer) < length:
        logits = mx.array(model([*PROMPT, *answer]))
        answer.append(int(sampler.sample(logits, answer, PROMPT).item()))
    return answer


PARAMS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.0, 0.4, 1.0, 1.7]),
    top_k=st.sampled_from([0, 0, 1, 3, 9]),
    top_p=st.sampled_from([1.0, 0.8, 0.4]),
    min_p=st.sampled_from([0.0, 0.1]),
    repetition_penalty=st.sampled_from([1.0, 1.0, 1.5]),
    presence_penalty=st.sampled_from([0.0, 0.0, 1.0]),
    frequency_penalty=st.sampled_from([0.0, 0.0, 0.5]),
    logit_bias=st.sampled_from([(), ((1, 2.0), (4, -0.5))]),
    seed=st.integers(0, 1000),
)
WRONG = st.lists(st.lists(st.integers(0, 2), max_size=7), min_size=1, max_size=6)


@settings(max_examples=80)
@given(params=PARAMS, seed=st.integers(0, 50), ties=st.booleans(), errors=WRONG)
def test_drafts_without_a_draw_change_no_token(
    params: SamplingParams, seed: int, ties: bool, errors: list[list[int]]
) -> None:
    """Drafts are the plain answer's own tokens, some of them made wrong."""
    model, length = some_model(seed, ties=ties), 20
    expected = plain(model, params, length + 8)
    sampler, steps = Sampler(params, VOCAB), iter(errors * length)

    def drafting(answer: list[int]) -> Draft:
        ahead = zip(expected[len(answer) :], next(steps), strict=False)
        return Draft(tuple((token + error // 2) % VOCAB for token, error in ahead), 0)

    answer = speculated(model, sampler, drafting, length)
    assert answer[:length] == expected[:length]
    if params.temperature:
        assert sampler.keys.drawn == len(answer)


@given(seed=st.integers(0, 200), wrong=st.lists(st.integers(0, 3), max_size=7))
def test_greedy_keeps_exactly_what_the_likeliest_tokens_agree_with(seed: int, wrong: list[int]) -> None:
    """Against NumPy's argmax, which takes the lowest of equals."""
    model, sequence, right = some_model(seed, ties=True), list(PROMPT), list[int]()
    for _ in range(len(wrong) + 1):
        right.append(int(model(sequence).argmax()))
        sequence.append(right[-1])
    drafted = [(token + (error == 3)) % VOCAB for token, error in zip(right, wrong, strict=False)]
    verdict = check(model, Sampler(SamplingParams(), VOCAB), [], Draft(tuple(drafted), 2))
    kept = wrong.index(3) if 3 in wrong else len(wrong)
    assert verdict.tokens == tuple(right[: kept + 1])
    assert verdict.accepted == kept


def law(logits: np.ndarray, params: SamplingParams, answer: Sequence[int]) -> np.ndarray:
    """The distribution of the next token, as SamplingParams describes it; presence is the only penalty."""
    logits = logits.astype(np.float64) - params.presence_penalty * np.isin(np.arange(VOCAB), answer)
    p = np.exp((logits - logits.max()) / params.temperature)
    p[np.argsort(-p)[params.top_k or VOCAB :]] = 0
    p /= p.sum()
    order = np.argsort(-p)
    p[order[np.cumsum(p[order]) - p[order] >= params.top_p]] = 0
    p[p < params.min_p * p.max()] = 0
    return p / p.sum()


def law_of_two(model: Model, params: SamplingParams) -> np.ndarray:
    """(VOCAB, VOCAB): how likely an answer begins with each two tokens."""
    first = law(model(PROMPT), params, [])
    return np.array([first[t] * law(model([*PROMPT, t]), params, [t]) for t in range(VOCAB)])


LAWS = [
    SamplingParams(temperature=1.0),
    SamplingParams(temperature=0.5, top_k=3),
    SamplingParams(temperature=1.6, top_p=0.8),
    SamplingParams(temperature=1.0, min_p=0.2),
    SamplingParams(temperature=0.8, top_k=4, top_p=0.95, presence_penalty=1.5),
]
LAW_NAMES = ["temperature", "top-k", "top-p", "min-p", "penalty"]


def drafters(model: Model, params: SamplingParams, seed: int) -> dict[str, Drafting]:
    """Good, bad and random drafts, of one to three tokens."""
    draw = np.random.default_rng(seed)

    def target(answer: list[int]) -> np.ndarray:
        return law(model([*PROMPT, *answer]), params, answer)

    def certain(best: bool) -> Drafting:
        def drafting(answer: list[int]) -> Draft:
            tokens = list[int]()
            for _ in range(draw.integers(1, 4)):
                p = target([*answer, *tokens])
                tokens.append(int(p.argmax() if best else p.argmin()))
            return Draft(tuple(tokens), 0)

        return drafting

    def guessed(_: list[int]) -> Draft:
        return Draft(tuple(map(int, draw.integers(VOCAB, size=draw.integers(1, 4)))), 0)

    return {"likeliest": certain(best=True), "unlikeliest": certain(best=False), "random": guessed}


@pytest.mark.parametrize("kind", ["likeliest", "unlikeliest", "random"])
@pytest.mark.parametrize("params", LAWS, ids=LAW_NAMES)
def test_sampling_with_drafts_keeps_the_law(params: SamplingParams, kind: str) -> None:
    """Pearson's chi-square of an answer's first two tokens, fixed seeds, 99.99th percentile."""
    answers, model = 300, some_model(5)
    drafting = drafters(model, params, seed=1)[kind]
    seen = Counter[tuple[int, ...]]()
    for seed in range(answers):
        seeded = SamplingParams(**{name: getattr(params, name) for name in params.__slots__} | {"seed": seed})
        seen[tuple(speculated(model, Sampler(seeded, VOCAB), drafting, 2)[:2])] += 1
    expected = answers * law_of_two(model, params)
    observed = np.array([[seen[a, b] for b in range(VOCAB)] for a in range(VOCAB)])
    assert observed[expected == 0].sum() == 0
    rare = expected < 5  # together one cell
    cells = [
        *zip(observed[~rare], expected[~rare], strict=True),
        (observed[rare].sum(), expected[rare].sum()),
    ]
    statistic = sum((o - e) ** 2 / e for o, e in cells if e > 0)
    freedom = sum(e > 0 for _, e in cells) - 1
    # Wilson and Hilferty's approximation of the chi-square quantile, at z = 3.72
    assert statistic < freedom * (1 - 2 / (9 * freedom) + 3.72 * math.sqrt(2 / (9 * freedom))) ** 3


@pytest.mark.parametrize("kind", ["likeliest", "random"])
def test_the_same_seed_and_drafts_give_the_same_tokens(kind: str) -> None:
    def answer(seed: int) -> list[int]:
        params = SamplingParams(temperature=1.5, seed=seed)
        model = some_model(3)
        return speculated(model, Sampler(params, VOCAB), drafters(model, params, 6)[kind], 30)

    assert answer(11) == answer(11)
    assert answer(11) != answer(12)


def test_greedy_takes_no_draws_and_asks_once_for_the_likeliest() -> None:
    calls = list[tuple[int, ...]]()

    def counted(logits: mx.array) -> tuple[mx.array, mx.array]:
        calls.append(logits.shape)
        return pick(logits)

    logits = mx.array(np.random.default_rng(0).normal(size=(4, VOCAB)).astype(np.float32))
    draft = Draft((1, 2, 3), 0)
    sampler = Sampler(SamplingParams(), VOCAB)
    verify(logits, draft, sampler, [], PROMPT, counted).read()
    assert calls == [(4, VOCAB)]
    assert sampler.keys.drawn == 0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_numbers_that_are_not_finite_count_where_tokens_come_from_them(temperature: float, row: int) -> None:
    """Row 1 rejects its draft, so that row 2 says nothing."""
    logits = np.zeros((3, VOCAB), dtype=np.float32)
    logits[0, 2] = logits[1, 3] = logits[2, 4] = 50
    logits[row] = math.nan
    draft = Draft((2, 0), 2)
    sampler = Sampler(SamplingParams(temperature=temperature, seed=1), VOCAB)
    assert verify(mx.array(logits), draft, sampler, [], PROMPT).read().is_finite == (row == 2)


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_rows_that_do_not_fit_the_draft_are_refused(rows: int) -> None:
    sampler = Sampler(SamplingParams(), VOCAB)
    with pytest.raises(ValueError, match=f"{rows} rows of logits for a draft of 2 tokens"):
        verify(mx.zeros((rows, VOCAB)), Draft((1, 2), 2), sampler, [], PROMPT)


def test_what_settles_is_the_agreement_and_one_more() -> None:
    for drafted, choices in product(product(range(2), repeat=2), product(range(2), repeat=3)):
        kept = 0 if drafted[0] != choices[0] else 1 if drafted[1] != choices[1] else 2
        assert settled(drafted, choices) == choices[: kept + 1]
    assert settled((), (7,)) == (7,)


def test_lookup_gain_and_check_together_copy_a_text_in_far_fewer_steps() -> None:
    """A greedy model that repeats its prompt, with a few slips; every token is the plain answer's."""
    draw = np.random.default_rng(1)
    source = draw.integers(0, 50, 150).tolist()
    answer = [token if draw.random() > 0.03 else 51 for token in source]
    costs = StepCosts()
    for _ in range(2):
        costs.stepped(1, 1.0)
    lookup, gain, sampler = PromptLookup(source), CopyGain(costs), Sampler(SamplingParams(), 52)
    # the start of a copy is not in the past: two tokens are needed to find the place
    done, steps = list[int](), 0
    while len(done) < len(answer):
        most = min(MOST_DRAFTED, len(answer) - len(done) - 1)
        draft = lookup.draft(gain.best(lookup.match, most, lambda: LENGTHS))
        rows = mx.eye(52)[mx.array(answer[len(done) : len(done) + len(draft.tokens) + 1])]
        verdict = verify(rows, draft, sampler, done, source).read()
        costs.stepped(1 + len(draft.tokens), 1 + 0.08 * len(draft.tokens))
        gain.checked(len(draft.tokens), verdict.accepted)
        for token in verdict.tokens:
            match = lookup.match
            is_right = lookup.follow(token)
            if match:
                gain.foretold(match, is_right)
        done += verdict.tokens
        steps += 1
    assert done == answer
    assert steps < len(answer) / 2.5
