"""The fixture of the hub's own tests."""

from tests.hub.fixtures import hub_home as hub_home
