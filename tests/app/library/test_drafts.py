"""Who guesses ahead for a model, as far as the library knows."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from app.library.drafts import draft_of
from app.library.importing import take_in
from app.library.library import open_library
from app.library.look import look
from app.paths import Paths
from tests.fakes.random_model import write_random_model


@pytest.mark.parametrize(("setting", "there"), [("SMALL", True), ("small", False), ("", True)])
def test_it_is_found_by_its_name_while_it_is_there(setting: str, there: bool, tmp_path: Path) -> None:
    for name in ("Large", "Small"):
        write_random_model(tmp_path / "mine" / name)
    with open_library(Paths(tmp_path / "data"), must_save=True) as library:
        take_in(library, tmp_path / "mine", look)
        large = library.named("large")
        library.save_settings(large, replace(large.settings, draft_model=setting))
        if not there:
            shutil.rmtree(tmp_path / "mine" / "Small")
            library.refresh(look)
        models = library.models()
        found = draft_of(library.named("large"), models)
        assert (found.name if found else None) == ("small" if setting and there else None)
        assert draft_of(library.named("guide"), models) is None
