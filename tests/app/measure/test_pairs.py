"""Two sides in turns: order, warm-up, and inputs that no cache knows."""

from __future__ import annotations

from app.measure.pairs import interleave, prompt_tokens


def test_sides_alternate_after_a_warm_up_that_does_not_count() -> None:
    order: list[str] = []
    pairs: list[int] = []

    def side(name: str, number: int) -> int:
        order.append(name)
        return number

    mine, theirs = interleave(
        3, lambda number: side("ours", number), lambda number: side("theirs", -number), pairs.append
    )
    assert order == ["theirs", "ours", "ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert (mine, theirs) == ([1, 2, 3], [-1, -2, -3])
    assert pairs == [0, 1, 2, 3]


def test_a_missing_side_has_no_samples() -> None:
    assert interleave(2, float, None, lambda number: None) == ([1.0, 2.0], [])


def test_prompts_are_the_same_again_and_differ_from_the_first_tokens_on() -> None:
    assert prompt_tokens(50, 1) == prompt_tokens(50, 1)
    assert len(prompt_tokens(50, 1)) == 50
    beginnings = {prompt_tokens(50, number, sequence)[:8] for number in range(8) for sequence in range(32)}
    assert len(beginnings) == 8 * 32
