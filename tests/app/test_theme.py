"""The themes: readable in both, and every placeholder filled."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.theme import DARK, LIGHT, Theme, contrast, halfway, style_sheet

TEXT = 4.5
SHAPE = 3.0


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
@pytest.mark.parametrize(
    ("colour", "grounds", "least"),
    [
        (
            "text",
            ("window", "sidebar", "surface", "hover", "bubble", "code", "accent_soft", "selection"),
            TEXT,
        ),
        ("muted", ("window", "sidebar", "surface", "hover", "code", "accent_soft"), TEXT),
        ("accent", ("window", "surface"), TEXT),
        ("on_accent", ("accent", "accent_hover"), TEXT),
        ("danger", ("window", "danger_soft"), TEXT),
        ("notice", ("notice_soft",), TEXT),
        ("window", ("text", "muted"), TEXT),
        ("accent", ("window", "sidebar", "hover"), SHAPE),
    ],
)
def test_contrast_is_enough_everywhere(
    theme: Theme, colour: str, grounds: tuple[str, ...], least: float
) -> None:
    for ground in grounds:
        found = contrast(getattr(theme, colour), getattr(theme, ground))
        assert found >= least, f"{colour} on {ground}: {found:.2f}"


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_the_style_sheet_has_no_holes(theme: Theme) -> None:
    sheet = style_sheet(theme)
    assert "{{" not in sheet
    assert theme.accent in sheet


def test_sheets_are_joined_in_order_and_unknown_names_refused(tmp_path: Path) -> None:
    (tmp_path / "20-b.qss").write_text("second {{ text }}")
    (tmp_path / "10-a.qss").write_text("first {{window}}")
    assert style_sheet(LIGHT, tmp_path) == f"first {LIGHT.window}\nsecond {LIGHT.text}"
    (tmp_path / "30-c.qss").write_text("{{ colour_of_the_sky }}")
    with pytest.raises(KeyError):
        style_sheet(LIGHT, tmp_path)


def test_halfway_is_in_the_middle_of_each_channel() -> None:
    assert halfway("#000000", "#10ff64") == "#087f32"
    assert halfway("#abcdef", "#abcdef") == "#abcdef"
