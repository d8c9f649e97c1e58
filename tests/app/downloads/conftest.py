"""Downloads against a local hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.app.downloads.stage import Stage
from tests.hub.fixtures import HubHome
from tests.hub.fixtures import hub_home as hub_home
from tests.hub.repos import Repo
from tests.hub.server import HubServer

OpenStage = Callable[..., Stage]


@pytest.fixture
def open_stage(hub_home: HubHome) -> Iterator[OpenStage]:
    """A hub with the repositories given, and a queue in front of it, in a cache that all of a test share."""
    opened: list[tuple[HubServer, Stage]] = []

    def open_one(*repos: Repo, hub: HubServer | None = None, **options: Any) -> Stage:
        if hub is None:
            hub = HubServer(repos, tokens={"hf_good": {"name": "me", "may_read": {"org/gated"}}})
            hub.__enter__()
        hub_home.connect(hub)
        opened.append((hub, Stage(hub, hub_home.path, **options)))
        return opened[-1][1]

    yield open_one
    for hub, _ in opened:
        hub.faults.clear()
    for _, stage in opened:
        stage.close()
    for hub in {id(hub): hub for hub, _ in opened}.values():
        hub.__exit__(None, None, None)
