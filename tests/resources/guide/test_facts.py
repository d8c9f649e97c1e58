"""The trained guide says what the code says today; when the two differ it has to be trained anew."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.commands import COMMANDS, CommandSpec
from app.settings import Settings
from app.shortcuts import SHORTCUTS, keys_for
from engine import SsdSettings
from resources.guide import facts as facts_module
from resources.guide.evaluate import MODEL
from resources.guide.facts import NEW_COMMANDS, NEW_SHORTCUTS, collect_facts
from resources.guide.topics import all_topics
from resources.guide.train import MANIFEST, trained_on

STALE = "the guide is stale: train it anew with `python -m resources.guide.train --out resources/guide/model`"
LIMIT = 8_000_000


def test_the_trained_model_knows_the_facts_of_this_code() -> None:
    manifest = json.loads((MODEL / MANIFEST).read_text("utf-8"))
    now = trained_on(collect_facts())
    assert manifest["facts"] == now["facts"], STALE
    assert manifest["answers_sha256"] == now["answers_sha256"], STALE


def test_what_the_guide_was_not_taught_is_in_the_code() -> None:
    assert {command.name for command in COMMANDS} >= NEW_COMMANDS
    assert {shortcut.action for shortcut in SHORTCUTS} >= NEW_SHORTCUTS


def test_a_command_that_comes_is_a_new_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    before = collect_facts()
    monkeypatch.setattr(facts_module, "COMMANDS", (*COMMANDS, CommandSpec("other", "", COMMANDS[0].load)))
    assert set(collect_facts().commands) == {*before.commands, "other"}


def test_answers_name_no_command_that_is_not_a_fact() -> None:
    facts = collect_facts()
    answers = [answer for topic in all_topics(facts) for answer in topic.answers]
    named = {name for answer in answers for name in re.findall(r"`mlxr ([a-z]+)", answer)}
    assert named == set(facts.commands)


def test_a_changed_fact_shows_in_the_manifest() -> None:
    facts = collect_facts()
    changed = replace(facts, page_size=facts.page_size * 2)
    assert trained_on(changed)["facts"] != trained_on(facts)["facts"]
    assert trained_on(changed)["answers_sha256"] != trained_on(facts)["answers_sha256"]


def test_facts_come_from_the_code_that_owns_them() -> None:
    facts = collect_facts()
    assert facts.shortcuts["new_chat"] == keys_for("new_chat")
    assert facts.key("new_chat") == f"{keys_for('new_chat')} (Cmd+N on a Mac)"
    assert facts.key("stop") == keys_for("stop")


def test_the_usual_idle_time_and_cache_are_what_is_said() -> None:
    said = {topic.id: topic.answers[0] for topic in all_topics(collect_facts())}
    assert f"after {int(Settings().unload_after)} minutes" in said["idle_unload"]
    most = re.findall(r"(\d+) GB", said["cache_size"])
    assert [abs(int(amount) * 10**9 - SsdSettings(Path()).cap_bytes) < 10**9 for amount in most] == [True]


def test_the_model_folder_is_small() -> None:
    size = sum(entry.stat().st_size for entry in os.scandir(MODEL))
    assert 1_000_000 < size <= LIMIT


def test_the_model_has_the_context_and_size_it_states() -> None:
    config = json.loads((MODEL / "config.json").read_text("utf-8"))
    manifest = json.loads((MODEL / MANIFEST).read_text("utf-8"))
    assert config["max_position_embeddings"] == collect_facts().context_length
    assert 2_000_000 < manifest["parameters"] < 4_000_000


@pytest.mark.parametrize("topic", all_topics(collect_facts()), ids=lambda topic: topic.id)
def test_a_topic_accepts_its_own_answers_only_with_the_fact(topic) -> None:
    assert all(topic.accepts(answer) for answer in topic.answers)
    assert not topic.accepts("I do not know.")
