"""What every test gets: the engine imported first, no display, no network, and a data home of its own."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import socket
from collections.abc import Generator
from pathlib import Path

# Before the engine and Qt are imported: a test run must neither open windows nor ask a model hub.
os.environ["QT_QPA_PLATFORM"] = "offscreen"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its worker threads and our forks do not mix
os.environ["MLX_ENABLE_TF32"] = "0"  # on an NVIDIA GPU, float32 products are to be compared as such

import engine  # noqa: F401  # isort: skip — loads OpenBLAS, which must come before any import of mlx
import mlx.core as mx
import pytest
from hypothesis import HealthCheck, settings

from engine.settings import default_cache
from tests.stuck import Watch

# A busy machine is no finding. `make test` tries the same examples everywhere, `make test-long` new ones.
settings.register_profile("exploring", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("exploring"), derandomize=True, database=None)
settings.load_profile("repeatable")

COMPILED = default_cache() / "emulated"
"""Kernels for the emulator, those of earlier runs too."""

_numbers = itertools.count(1)

LOOPBACK = ("127.", "::1", "localhost")


def pytest_configure(config: pytest.Config) -> None:
    """Before a test that hangs is ended, what its process was at is told.

    A Ctrl-C is heard also where a shell runs the tests in the background, and has such commands ignore it.
    """
    config.pluginmanager.register(_Watching())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _Watching:
    def __init__(self) -> None:
        self._watch = Watch()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None]:
        own = item.get_closest_marker("timeout")
        limit = float(own.args[0] if own and own.args else item.config.getini("timeout") or 0)
        if limit:
            self._watch.begin(item.nodeid, 0.75 * limit)
        yield
        self._watch.end()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._watch.told:
            terminalreporter.section("tests that lasted")
            terminalreporter.write_line("\n".join(self._watch.told))


@pytest.fixture(autouse=True)
def _own_data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test writes its data to a folder of its own; nobody's real chats are touched."""
    monkeypatch.setenv("MLXR_HOME", str(tmp_path / "mlxr-home"))


@pytest.fixture(scope="session", autouse=True)
def _engine_caches(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """The folder of all tests' caches; a module's fixtures share one."""
    folder = tmp_path_factory.mktemp("engine-caches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.settings.default_cache", lambda: _cache_in(folder / "of modules"))
        yield folder


@pytest.fixture(autouse=True)
def _own_engine_cache(_engine_caches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds what another one measured: whose prompt is read first, and what runs, is up to that."""
    own = _engine_caches / str(next(_numbers))
    monkeypatch.setattr("engine.settings.default_cache", lambda: _cache_in(own))


def _cache_in(folder: Path) -> Path:
    """A cache that has only compiled kernels, which are named by their text: each takes a second or two."""
    if not folder.exists():
        COMPILED.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        (folder / COMPILED.name).symlink_to(COMPILED)
    return folder


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections leave this machine only by mistake: they fail the test at once."""
    connect = socket.socket.connect

    def connect_here_only(self: socket.socket, address: object) -> None:
        host = address[0] if isinstance(address, tuple) else ""
        if self.family in (socket.AF_INET, socket.AF_INET6) and not str(host).startswith(LOOPBACK):
            raise AssertionError(f"a test tried to reach the network: {address}")
        connect(self, address)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(socket.socket, "connect", connect_here_only)


@pytest.fixture(scope="session")
def qapp_cls() -> type:
    """What pytest-qt makes the application of: ours."""
    from app.application import Application

    return Application


@pytest.fixture
def settled_memory() -> None:
    """Nothing of earlier tests waits to be collected: MLX's count of memory moves with this test alone."""
    gc.collect()
    mx.clear_cache()
