"""Whether a library's models fit in this machine, by what is set for KV memory, in a terminal's words."""

from __future__ import annotations

from app.amounts import size
from app.engine_settings import fit_settings
from app.library.records import Model
from app.paths import default_paths
from engine import Fit, model_fit


def fit_of(model: Model, memory: int) -> Fit | None:
    """How the model goes into `memory` bytes; None where it is not run here or not there."""
    if not model.is_runnable:
        return None
    settings = fit_settings(default_paths())
    return model_fit(model, memory, context=model.settings.context, settings=settings)


def fit_words(fit: Fit | None) -> str:
    """A line of the details of a model."""
    if fit is None:
        return ""
    if fit.verdict == "does not fit":
        return f"no: {size(fit.weight_bytes)} of weights in {size(fit.memory_bytes)} of memory"
    return f"{'yes' if fit.verdict == 'fits' else 'tight'}: up to {fit.most_context:,} tokens in one chat"


def fit_cell(model: Model, memory: int) -> str:
    """A cell of the table of models."""
    if model.state != "here":
        return "gone" if model.state == "gone" else "damaged"
    fit = fit_of(model, memory)
    return "not run" if fit is None else {"fits": "yes", "tight": "tight", "does not fit": "no"}[fit.verdict]
