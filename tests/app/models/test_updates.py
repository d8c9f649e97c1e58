"""Updates: asked for by a person, shown, and fetched without what is there already."""

from __future__ import annotations

import pytest

from app.model_location import GUIDE
from app.models.library_view import LOOK_FOR_UPDATE, UPDATE
from app.models.updates_view_model import ALL_NEW, ONE
from tests.app.conftest import OpenDesktop
from tests.app.models.conftest import OpenScene
from tests.hub.repos import Repo
from tests.hub.server import HubServer

REPO = "org/small-model"
pytestmark = pytest.mark.usefixtures("own_home")


def test_a_newer_commit_is_shown_and_fetched(
    open_desktop: OpenDesktop, open_scene: OpenScene, hub: HubServer
) -> None:
    hub.update(Repo.from_folder(REPO, GUIDE, card="# First"))
    scene = open_scene(open_desktop())
    scene.desk.downloads.add(REPO, "")
    scene.wait(lambda: "small-model" in scene.labels())
    asked = len(hub.requests)
    scene.choose("small-model", LOOK_FOR_UPDATE)
    scene.wait(lambda: "is up to date" in scene.page.toast.text)
    assert len(hub.requests) == asked + 1
    assert scene.labels()["small-model"] == "Fits"
    newer = hub.update(Repo.from_folder(REPO, GUIDE, card="# Second"))
    look_at_all = scene.page.library._again.menu().actions()[1]
    hub.is_offline = True
    look_at_all.trigger()
    scene.wait(lambda: "refuses connections" in scene.page.banner.text)
    hub.is_offline = False
    look_at_all.trigger()
    scene.wait(lambda: scene.page.toast.text == ONE)
    scene.wait(lambda: scene.labels()["small-model"] == "Update available")
    assert UPDATE in scene.offered("small-model")
    sent = hub.bytes_sent(REPO, "model.safetensors")
    scene.choose("small-model", UPDATE)
    scene.wait(lambda: scene.labels()["small-model"] == "Fits")
    model = scene.desk.library.find(f"hf:{REPO}")
    assert model
    assert model.revision == newer
    assert hub.bytes_sent(REPO, "model.safetensors") == sent
    look_at_all.trigger()
    scene.wait(lambda: scene.page.toast.text == ALL_NEW)
