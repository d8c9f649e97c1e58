"""The fixtures of the hub's own tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hub.examples import GATED, MODEL, PRIVATE, TOKENS
from tests.hub.fixtures import HubHome
from tests.hub.fixtures import hub_home as hub_home
from tests.hub.server import HubServer


@pytest.fixture
def hub(hub_home: HubHome) -> Iterator[HubServer]:
    with HubServer([MODEL, GATED, PRIVATE], TOKENS) as hub:
        hub_home.connect(hub)
        yield hub
