"""What the guide says about sampling settings."""

from __future__ import annotations

from resources.guide.facts import Facts
from resources.guide.topic import Topic, topic


def topics(f: Facts) -> list[Topic]:
    """Topics about how the next token is chosen."""
    return [
        topic(
            "sampling",
            "what sampling is, which sampling settings there are",
            ("temperature", "top-k", "top-p", "min-p"),
            "Sampling is how the next token is drawn: temperature, top-k, top-p, min-p, penalties and a "
            "seed steer "
            "it.",
        ),
        topic(
            "temperature",
            "what temperature does",
            ("temperature", "0", "likeliest"),
            "A higher temperature makes answers more varied, a lower one more sober; 0 always takes the "
            "likeliest "
            "token.",
        ),
        topic(
            "top_k",
            "what top-k does",
            ("top-k", "k likeliest"),
            "top-k keeps only the k likeliest tokens to draw from; 0 turns it off.",
        ),
        topic(
            "top_p",
            "what top-p or nucleus sampling does",
            ("top-p", "smallest set"),
            "top-p keeps the smallest set of tokens whose chances add up to p; 1 turns it off.",
        ),
        topic(
            "min_p",
            "what min-p does",
            ("min-p", "below"),
            "min-p drops tokens whose chance is below that share of the likeliest one's; 0 turns it off.",
        ),
        topic(
            "seed",
            "what the seed does, how to repeat an answer exactly",
            ("same seed", "same text"),
            "The same seed with the same prompt gives the same text: `--seed 7`.",
        ),
        topic(
            "penalties",
            "what repetition, presence and frequency penalties do",
            ("penalties", "repeat"),
            "Penalties make tokens already used less likely, so that the model does not repeat itself.",
        ),
        topic(
            "stop_strings",
            "what stop strings do, how to end at a certain text",
            ("--stop", "ends"),
            "A stop string ends the answer where it appears and is cut off: `mlxr generate --stop TEXT`.",
        ),
        topic(
            "max_tokens",
            "how to limit the length of an answer",
            "--max-tokens",
            "`--max-tokens N` ends an answer after N tokens at most.",
        ),
        topic(
            "logprobs",
            "how to see token probabilities",
            "--logprobs",
            "`mlxr generate --logprobs K --json` lists each token's log-probability and the K likeliest "
            "ones.",
        ),
        topic(
            "logit_bias",
            "what logit bias is",
            ("adds", "token"),
            "Logit bias adds a number to a token's score, so that it is chosen more often or never.",
        ),
    ]
