"""All the topics the guide knows, and how it declines; `python -m resources.guide.topics` shows it."""

from __future__ import annotations

from resources.guide.answers import (
    about,
    commands,
    files,
    models,
    models_page,
    platform,
    sampling,
    small_talk,
    troubles,
    window,
    words,
)
from resources.guide.facts import Facts, collect_facts
from resources.guide.topic import Topic, topic

OFF_TOPIC = "off_topic"


def on_topic(facts: Facts) -> tuple[Topic, ...]:
    """Topics about MLXR and small talk, in the order they were thought of."""
    sources = (
        about,
        platform,
        files,
        models,
        models_page,
        words,
        window,
        commands,
        troubles,
        sampling,
        small_talk,
    )
    return tuple(t for source in sources for t in source.topics(facts))


def declined(facts: Facts) -> Topic:
    """How anything else is answered: one sentence, what I am, how to get a real model."""
    key = facts.shortcuts["open_model"]
    return topic(
        OFF_TOPIC,
        "anything that is neither about MLXR nor small talk",
        ("built-in guide", r"only know", r"real model", key.replace("+", r"\+")),
        f"Sorry, I am MLXR's small built-in guide and only know MLXR itself, so for that please open "
        f"a real model with {facts.key('open_model')}.",
        f"That is beyond me: as MLXR's small built-in guide I only know MLXR, but a real model, "
        f"opened with {facts.key('open_model')}, can help with it.",
    )


def all_topics(facts: Facts) -> tuple[Topic, ...]:
    """Every topic, the declining one last."""
    return (*on_topic(facts), declined(facts))


def main() -> None:
    """Print each topic: id, what is asked, the answers, and the facts checked."""
    for each in all_topics(collect_facts()):
        print(f"{each.id}: {each.asks}")
        for answer in each.answers:
            print(f"    {answer}")
        print(f"    must contain: {' & '.join(each.must)}")


if __name__ == "__main__":
    main()
