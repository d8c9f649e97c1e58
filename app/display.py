"""Whether a window can open here, asked without Qt: Qt ends the whole process when it cannot."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

_X11 = "libxcb.so.1"
_WAYLAND = "libwayland-client.so.0"
_NEW_GENERATION_S = 0.5  # ample for an X server that starts anew
_QUARTZ = "/System/Library/Frameworks/ApplicationServices.framework/ApplicationServices"


def display_problem(environ: Mapping[str, str] | None = None) -> str:
    """Why no window can open, in a few words, or "" when one can."""
    environ = os.environ if environ is None else environ
    if sys.platform == "darwin":
        return "" if _quartz_session() else "this login has no access to the screen"
    platforms = environ.get("QT_QPA_PLATFORM", "")
    if platforms and not platforms.startswith(("xcb", "wayland")):
        return _other_problem(platforms)
    if "wayland" in platforms and "xcb" not in platforms:
        x11, wayland, lack = None, environ.get("WAYLAND_DISPLAY"), "WAYLAND_DISPLAY is not set"
    elif "xcb" in platforms and "wayland" not in platforms:
        x11, wayland, lack = environ.get("DISPLAY"), None, "DISPLAY is not set"
    else:
        x11, wayland = environ.get("DISPLAY"), environ.get("WAYLAND_DISPLAY")
        lack = "neither DISPLAY nor WAYLAND_DISPLAY is set"
    if not x11 and not wayland:
        return f"no display ({lack}{f', and QT_QPA_PLATFORM is {platforms}' if platforms else ''})"
    if wayland and (environ.get("XDG_RUNTIME_DIR") or wayland.startswith("/")) and _wayland_answers():
        return ""
    if x11 and _x11_answers(x11):
        return _x11_plugin_problem()
    tried = " and ".join(name for name in (wayland, x11) if name)
    return f"the display {tried} does not answer"


def _other_problem(platforms: str) -> str:
    """Whether Qt has what `platforms` names first; offscreen, vnc and the like need no display."""
    name, folder = platforms.partition(";")[0].partition(":")[0], _platform_folder()
    if folder is not None and folder.exists() and not (folder / f"libq{name}.so").exists():
        return f"QT_QPA_PLATFORM is {platforms}, which Qt does not have here"
    return ""


def _x11_plugin_problem() -> str:
    """What Qt's X11 part misses: loaded here, a missing library is an error; loaded by Qt, it is an abort."""
    folder = _platform_folder()
    if folder is None:
        return "PySide6 is not installed"
    plugin = folder / "libqxcb.so"
    try:
        if plugin.exists():  # a distribution's own Qt keeps it elsewhere and brings its libraries
            ctypes.CDLL(str(plugin))
    except OSError as error:
        return f"Qt misses a library of the system ({error})"
    return ""


def _platform_folder() -> Path | None:
    """Where Qt's wheel keeps its platforms; None without PySide6."""
    package = find_spec("PySide6")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "Qt" / "plugins" / "platforms"


def _x11_answers(display: str) -> bool:
    """Connect as Qt will, authorisation included.

    An X server whose last client leaves starts anew, unless told otherwise (`-noreset`, Xserver(1)), and
    drops whoever comes meanwhile: it is asked again.
    """
    try:
        xcb = ctypes.CDLL(_X11)
    except OSError:
        return False
    xcb.xcb_connect.restype = ctypes.c_void_p
    xcb.xcb_connect.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    xcb.xcb_connection_has_error.argtypes = [ctypes.c_void_p]
    xcb.xcb_disconnect.argtypes = [ctypes.c_void_p]
    ends = time.monotonic() + _NEW_GENERATION_S
    while not (answers := _connects(xcb, display)) and time.monotonic() < ends:
        time.sleep(0.02)
    return answers


def _connects(xcb: ctypes.CDLL, display: str) -> bool:
    connection = xcb.xcb_connect(os.fsencode(display), None)
    answers = xcb.xcb_connection_has_error(connection) == 0
    xcb.xcb_disconnect(connection)
    return answers


def _wayland_answers() -> bool:
    try:
        wayland = ctypes.CDLL(_WAYLAND)
    except OSError:
        return False
    wayland.wl_display_connect.restype = ctypes.c_void_p
    wayland.wl_display_connect.argtypes = [ctypes.c_char_p]
    wayland.wl_display_disconnect.argtypes = [ctypes.c_void_p]
    connection = wayland.wl_display_connect(None)
    if not connection:
        return False
    wayland.wl_display_disconnect(connection)
    return True


def _quartz_session() -> bool:
    quartz = ctypes.CDLL(_QUARTZ)
    quartz.CGSessionCopyCurrentDictionary.restype = ctypes.c_void_p
    return bool(quartz.CGSessionCopyCurrentDictionary())
