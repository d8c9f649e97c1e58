"""Where the objects behind the dashboard's page meet; made when somebody first looks."""

from __future__ import annotations

from collections.abc import Callable, Generator

from PySide6.QtCore import QObject, Signal

from app.appearance import Appearance
from app.chat.pins import PinsViewModel
from app.dashboard.bench_context_view_model import ContextViewModel
from app.dashboard.bench_pane import BenchPane
from app.dashboard.bench_view_model import BenchViewModel
from app.dashboard.cache_pane import CachePane
from app.dashboard.cache_view_model import CacheViewModel
from app.dashboard.dashboard_page import DashboardPage
from app.dashboard.history_pane import HistoryPane
from app.dashboard.history_view_model import HistoryViewModel
from app.dashboard.kernels_pane import KernelsPane
from app.dashboard.kernels_view_model import KernelsViewModel
from app.dashboard.live_pane import LivePane
from app.dashboard.live_view_model import LiveViewModel
from app.dashboard.logs_diagnostics import doctor_report
from app.dashboard.logs_pane import LogsPane
from app.dashboard.logs_view_model import LogsViewModel
from app.first_run.trials_view_model import TrialsViewModel
from app.models.background import Background
from app.models.models_view_model import ModelsViewModel
from app.onlookers import Onlookers
from app.paths import Paths
from engine import Command, check_kernels, kernel_table


class DashboardDesk(QObject):
    """The page, and view models of what only it shows. Signals: `left`, and `chat_chosen(chat id)`."""

    left = Signal()
    chat_chosen = Signal(str)

    def __init__(
        self,
        appearance: Appearance,
        live: LiveViewModel,
        cache: CacheViewModel,
        pins: PinsViewModel,
        title_of: Callable[[str], str],
        models: ModelsViewModel,
        submit: Callable[[Command], None],
        rest_after: Callable[[], float | None],
        onlookers: Onlookers,
        trials: TrialsViewModel,
        background: Background,
        paths: Paths,
    ) -> None:
        """`title_of`: a chat's title; `background`: where kernels are checked.

        `rest_after`: seconds without a request until a model may leave memory, as it is set.
        """
        super().__init__()
        self._appearance, self._live, self._cache, self._pins = appearance, live, cache, pins
        self._title_of, self._name_of, self._trials = title_of, models.name_of, trials
        self.kernels = KernelsViewModel(
            background,
            cache,
            lambda: kernel_table(paths.kernels),
            lambda: check_kernels(paths.kernels),
            submit,
        )
        self.history = HistoryViewModel(onlookers.history, onlookers.recorder, models.name_of)
        own = Background("mlxr-logs", background.tell)  # a check of kernels keeps the other one busy
        self.logs = LogsViewModel(paths.log, own, lambda: doctor_report(paths.home))
        alone = Background("mlxr-bench", background.tell)
        headers = Background("mlxr-context", background.tell)
        self.bench = BenchViewModel(alone, models, submit, rest_after, paths)
        self.contexts = ContextViewModel(headers, models, paths)
        self.page = DashboardPage(appearance)
        self.page.left.connect(self.left)

    def parts(self) -> Generator[None]:
        """Make the page's panes, one after the other, in parts that take less than a frame each."""
        page, appearance = self.page, self._appearance
        live = LivePane(appearance, self._live, self._title_of, self._name_of, page)
        yield
        page.add_pane("Live", live)  # it is shown, which takes as long again
        yield
        page.add_pane("Cache", self._make_cache())
        yield
        page.add_pane("Kernels", KernelsPane(appearance, self.kernels, self._trials, page))
        yield
        history = HistoryPane(appearance, self.history, self._title_of, page)
        yield
        history.complete()
        page.add_pane("History", history)
        yield
        page.add_pane("Benchmark", BenchPane(appearance, self.bench, self.contexts, page))
        yield
        page.add_pane("Logs", LogsPane(appearance, self.logs, page))

    def _make_cache(self) -> CachePane:
        cache = CachePane(self._appearance, self._cache, self._pins, self._title_of, self.page)
        cache.chat_chosen.connect(self.chat_chosen)
        return cache
