"""Whether a library's models fit in this machine, by what is set for KV memory, in a terminal's words."""

from __future__ import annotations

from collections.abc import Sequence

from app.amounts import size
from app.engine_settings import fit_settings
from app.library.drafts import draft_of
from app.library.records import Model
from app.paths import default_paths
from engine import Fit, machine_report, model_fit


class Fits:
    """How models go into this machine's memory, each with the one that guesses ahead for it."""

    def __init__(self, models: Sequence[Model]) -> None:
        """`models`: all that there are."""
        self._models = models
        self._settings, self._memory = fit_settings(default_paths()), machine_report().memory_bytes

    def of(self, model: Model) -> Fit | None:
        """How it goes there with the context that is set for it; None where it is not run or not here."""
        if not model.is_runnable:
            return None
        return model_fit(
            model,
            self._memory,
            context=model.settings.context,
            settings=self._settings,
            draft=draft_of(model, self._models),
        )

    def cell(self, model: Model) -> str:
        """A cell of the table of models."""
        if model.state != "here":
            return "gone" if model.state == "gone" else "damaged"
        fit = self.of(model)
        if fit is None:
            return "not run"
        return {"fits": "yes", "tight": "tight", "does not fit": "no"}[fit.verdict]


def fit_words(fit: Fit | None) -> str:
    """A line of the details of a model."""
    if fit is None:
        return ""
    if fit.verdict == "does not fit":
        return f"no: {size(fit.weight_bytes)} of weights in {size(fit.memory_bytes)} of memory"
    return f"{'yes' if fit.verdict == 'fits' else 'tight'}: up to {fit.most_context:,} tokens in one chat"
