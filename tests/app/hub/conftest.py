"""What the tests of app/hub share: Hugging Face's session at a local hub."""

from tests.hub.fixtures import hub_home as hub_home
