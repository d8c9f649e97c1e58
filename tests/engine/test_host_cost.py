"""The tool that measures the host's part of a short chunk sends what a GPU would be sent."""

from pathlib import Path

from tests.engine.host_cost import measure


def test_a_short_chunk_takes_six_launches_a_layer(tmp_path: Path) -> None:
    launched, took = measure(tmp_path, behind=4091, rounds=2, is_cold=True)
    assert 6 * 22 <= launched <= 6 * 22 + 4  # and its numbers, rows, the last one's logits, and the choice
    assert len(took) == 2
    assert all(0 < seconds < 10 for seconds in took)
