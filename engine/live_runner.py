"""The runner that serves: made anew when kernels are chosen or doubted, with launches counted through all."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import mlx.core as mx

from engine.events.events import Event
from engine.events.models import KernelsChosen
from engine.kv.page_table import PageTable
from engine.kv.pager import OutOfPages
from engine.loading.model import LoadedModel
from engine.pacing.mixed_costs import MixedStepBroke
from engine.pacing.ways import Mixing
from engine.rest.warm_up import Warmth
from engine.runner import Runner
from metal.first_runs import FirstRuns
from metal.trial_messages import tells_of_memory

log = logging.getLogger(__name__)


class LiveRunner:
    """A model's runner of the moment.

    Attributes:
        runner: the one to use now.
        first_runs: of the kernels that it uses.
    """

    def __init__(
        self,
        model: LoadedModel,
        emit: Callable[[Event], None],
        steps: Sequence[int],
        chunk: int = 0,
        folder: Path | None = None,
    ) -> None:
        """`steps` and `chunk`: what is made ready for, as in Warmth.

        `folder`: where it is noted that kernels run for the first times; None: nowhere.
        """
        self._model, self._emit, self._steps, self._chunk = model, emit, steps, chunk
        self._folder = folder
        self._earlier, self._earlier_tokens = Counter[str](), 0
        self.runner = Runner(model)
        self._warmth = Warmth(self.runner, model, steps, chunk)
        self.first_runs = self._make_first_runs()
        self._guarded(self._warmth.begin)

    @property
    def launches(self) -> Counter[str]:
        """Of decode steps since the model was loaded, by name."""
        return self._earlier + self.runner.launches

    @property
    def tokens(self) -> int:
        """That these decode steps were for."""
        return self._earlier_tokens + self.runner.tokens

    def choose_kernels(self) -> None:
        """Take into use what trials have chosen; for when there is no request. Pages stay as they are."""
        mx.eval(self._model.arena.state())
        self._model.choose_kernels()
        self._renew()
        self._guarded(self._warmth.begin)

    @property
    def cold_steps(self) -> int:
        """Kinds of steps whose kernels are not compiled yet."""
        return self._warmth.cold

    def is_warm(self, tokens: int, length: int) -> bool:
        """Whether a step of `tokens` compiles nothing, where its sequence has `length` with them."""
        return self._warmth.is_warm(tokens, length)

    def mixing(self) -> Mixing:
        """Whether prompts may go with answers' tokens: see Warmth."""
        return self._warmth.mixing

    def warm_next(self) -> None:
        """Compile one more kind of step; for when there is no request."""
        self._guarded(self._warmth.next)

    def doubt(self, error: Exception) -> None:
        """After a step that broke: kernels that nobody asked for do not get a second chance to break one.

        A lack of memory is not their fault.
        """
        kernels = self._model.kernels
        if kernels is None or kernels.choice.is_forced or tells_of_memory(str(error)):
            return
        self._model.drop_kernels(f"kernels are off until it is loaded again, since a step broke ({error})")
        self._renew()

    def tell_notes(self) -> None:
        """What goes more slowly from now on is told of, once."""
        self.tell(*self.runner.notes)

    def tell(self, *notes: str) -> None:
        """Lines for ModelInfo.kernel_notes, each told once."""
        info = self._model.info
        if new := tuple(note for note in notes if note not in info.kernel_notes):
            self._model.info = replace(info, kernel_notes=(*info.kernel_notes, *new))
            self._emit(KernelsChosen(self._model.info))

    def drop_pages(self, tables: Iterable[PageTable] = ()) -> None:
        """After a device error, what pages hold cannot be trusted; `tables` are all that hold any."""
        for table in tables:
            self._model.memory.free(table)
        self._model.memory.drop()
        self._model.arena.release()

    def _guarded(self, compile_some: Callable[[], None]) -> None:
        """Where kernels are compiled at their first launch, that is not a request's."""
        self.first_runs.begin()
        try:
            compile_some()
        except OutOfPages:
            log.info("there was no page for a first step")
        except MixedStepBroke:  # no request meets one: kernels are as good as they were
            log.exception("prompts do not go with answers' tokens: a step of both broke at rest")
            self.drop_pages()
        except Exception as error:  # a request would have met it
            log.exception("a first step broke")
            self.drop_pages()
            self.doubt(error)
        finally:
            self.first_runs.rest()

    def _make_first_runs(self) -> FirstRuns:
        kernels = self._model.kernels
        if kernels is None or kernels.choice.is_forced or self._folder is None:
            return FirstRuns(Path(), ())
        return FirstRuns(self._folder, kernels.choice.digests())

    def _renew(self) -> None:
        """The kernels of the model are others than they were."""
        self._earlier, self._earlier_tokens = self.launches, self.tokens
        self.runner = Runner(self._model)
        self._warmth = Warmth(self.runner, self._model, self._steps, self._chunk)
        self.first_runs.rest()
        self.first_runs = self._make_first_runs()
        self._emit(KernelsChosen(self._model.info))
