"""What the cache's pane is told of several models."""

from __future__ import annotations

from app.dashboard.cache_view_model import CacheViewModel
from engine import ModelReady, ModelUnloaded
from tests.fakes.scripted_engine import model_info


def test_it_knows_whether_chats_may_be_another_models() -> None:
    cache = CacheViewModel(lambda command: None)
    cache.handle(ModelReady("a", model_info("/models/a")))
    assert not cache.has_several
    cache.handle(ModelReady("b", model_info("/models/b")))
    assert cache.has_several
    cache.handle(ModelUnloaded("/models/a"))
    assert not cache.has_several
