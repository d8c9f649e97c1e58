"""CHANGELOG.md as the window tells it: what changed in each version."""

from __future__ import annotations

import pytest

from app import VERSION
from app.updates.changelog import bundled, parsed

TEXT = """\
# Changelog

Words above.

## [Unreleased]

### Added
- Not yet,
  on two lines.

## [0.2.0] - 2026-11-22

### Added
- Wings:
  - large
  - and small ones,
    which fold
- [Links](https://example.org) are not headings.

## [0.1.0] - 2026-10-01

First.
"""


def test_versions_are_told_newest_first() -> None:
    log = parsed(TEXT)
    assert log.unreleased == "### Added\n- Not yet, on two lines."
    assert [(one.version, one.day) for one in log.releases] == [
        ("0.2.0", "2026-11-22"),
        ("0.1.0", "2026-10-01"),
    ]
    assert log.releases[1].text == "First."


def test_lines_are_whole_again_and_lists_stay_lists() -> None:
    assert parsed(TEXT).releases[0].text == (
        "### Added\n- Wings:\n  - large\n  - and small ones, which fold\n"
        "- [Links](https://example.org) are not headings."
    )


def test_what_changed_since_a_version() -> None:
    assert [one.version for one in parsed(TEXT).since("0.1.0")] == ["0.2.0"]
    assert parsed(TEXT).since("0.2.0") == ()


@pytest.mark.parametrize("heading", ["## [soon] - 2026-11-22", "## [0.3.0]"])
def test_a_heading_that_tells_no_version_or_day_is_an_error(heading: str) -> None:
    with pytest.raises(ValueError, match=r"soon|0\.3\.0"):
        parsed(TEXT.replace("## [0.2.0] - 2026-11-22", heading))


def test_the_projects_own_is_one() -> None:
    log = bundled()
    assert log.unreleased or VERSION in [one.version for one in log.releases]
