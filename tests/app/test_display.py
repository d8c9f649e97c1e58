"""Whether a window can open, told from the environment."""

from __future__ import annotations

import sys

import pytest

from app.display import display_problem

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="displays are found otherwise there")


def test_no_display_is_named() -> None:
    assert display_problem({}).startswith("no display")


def test_empty_variables_are_no_display() -> None:
    assert display_problem({"DISPLAY": "", "WAYLAND_DISPLAY": ""}).startswith("no display")


@pytest.mark.parametrize(
    "environ",
    [
        {"DISPLAY": ":9173"},
        {"DISPLAY": "nonsense"},
        {"WAYLAND_DISPLAY": "wayland-9173", "XDG_RUNTIME_DIR": "/nowhere"},
        {"WAYLAND_DISPLAY": "wayland-9173", "DISPLAY": ":9173"},
        {"QT_QPA_PLATFORM": "xcb", "DISPLAY": ":9173"},
    ],
)
def test_a_display_that_does_not_answer_is_named(environ: dict[str, str]) -> None:
    problem = display_problem(environ)
    assert problem.endswith("does not answer")
    assert environ.get("DISPLAY", environ.get("WAYLAND_DISPLAY", "")) in problem


@pytest.mark.parametrize("platform", ["offscreen", "minimal", "vnc:size=800x600", "offscreen;xcb"])
def test_platforms_without_a_display_need_none(platform: str) -> None:
    assert display_problem({"QT_QPA_PLATFORM": platform}) == ""
