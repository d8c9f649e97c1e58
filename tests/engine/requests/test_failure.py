"""What a caller is told of a request that broke."""

from __future__ import annotations

from engine.errors import InvalidRequest
from engine.requests.failure import failure

COMPILER = (
    "Unable to build metal library from source\nprogram_source:12:3: error: use of 'x'\n" + "  ^~~\n" * 500
)


def test_what_broke_is_told_in_one_line_that_can_be_shown_and_whole_in_its_detail() -> None:
    failed = failure("a", RuntimeError(COMPILER))
    assert failed.kind == "Internal"
    assert failed.error.startswith(
        "something broke inside the engine (Unable to build metal library from source "
    )
    assert failed.error.endswith("…); the log has the details")
    assert failed.error.isprintable()
    assert len(failed.error) < 400
    assert COMPILER in failed.detail


def test_an_error_of_ours_is_told_in_its_own_words() -> None:
    assert failure("a", InvalidRequest("n is 0")).error == "n is 0"
    assert (
        failure("a", RuntimeError("short")).error
        == "something broke inside the engine (short); the log has the details"
    )
