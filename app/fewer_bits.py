"""Fewer bits for keys and values, as a way out of a refusal: in the setting that holds for that model."""

from __future__ import annotations

from functools import partial

from app import text
from app.library.records import ModelSettings
from app.models.models_view_model import ModelsViewModel
from app.models.own_settings import OwnSettings
from app.settings import KvCache
from app.settings_desk import SettingsDesk
from app.widgets.toast import Toast


class FewerBits:
    """A model's own setting goes before that of all models: it is changed where there is one."""

    def __init__(
        self, own: OwnSettings, models: ModelsViewModel, settings: SettingsDesk, toast: Toast
    ) -> None:
        self._own, self._models, self._settings, self._toast = own, models, settings, toast

    def store(self, bits: int, model: str) -> None:
        """Let what the model at path `model` computes be kept in `bits` bits, and say from when on."""
        choice: KvCache = "8" if bits == 8 else "4"
        self._own.choose_kv_cache(model, choice, partial(self._stored, model, choice), self._toast.say)

    def _stored(self, model: str, choice: KvCache, own: ModelSettings | None) -> None:
        if own is None:
            self._settings.choose_kv_cache(choice)
            return
        words = text.QUANTISED_MODEL.format(name=self._models.name_of(model), amount=choice)
        if model in self._models.states:
            self._models.take_own(model, own)
        self._toast.offer(words, text.OPEN_AGAIN, partial(self._models.open, model))
