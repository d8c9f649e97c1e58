"""Whether a window can open, told from the environment."""

from __future__ import annotations

import shutil
import subprocess
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


def test_a_platform_that_qt_does_not_have_is_named() -> None:
    problem = display_problem({"QT_QPA_PLATFORM": "waylnad"})
    assert problem == "QT_QPA_PLATFORM is waylnad, which Qt does not have here"


@pytest.mark.skipif(shutil.which("Xvfb") is None, reason="needs Xvfb")
def test_only_a_display_of_the_kind_that_qt_is_told_to_use_counts() -> None:
    with subprocess.Popen(
        ["Xvfb", "-displayfd", "1", "-nolisten", "tcp"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdout is not None
        x11 = {"DISPLAY": f":{server.stdout.readline().decode().strip()}"}
        try:
            for platforms in ("", "xcb", "wayland;xcb") * 20:  # the server starts anew when a caller has left
                assert display_problem(x11 | {"QT_QPA_PLATFORM": platforms}) == ""
            problem = display_problem(x11 | {"QT_QPA_PLATFORM": "wayland"})
            assert problem == "no display (WAYLAND_DISPLAY is not set, and QT_QPA_PLATFORM is wayland)"
        finally:
            server.terminate()


def test_x11_that_qt_is_told_to_use_is_not_made_up_for_by_wayland() -> None:
    problem = display_problem({"QT_QPA_PLATFORM": "xcb", "WAYLAND_DISPLAY": "wayland-0"})
    assert problem == "no display (DISPLAY is not set, and QT_QPA_PLATFORM is xcb)"
