"""Trains the guide from its own text: `python -m resources.guide.train --out FOLDER`."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx import optimizers
from mlx.utils import tree_map

from resources.guide.corpus import CHUNK, HERE, Corpus, Turn, draw_turns, read_asked
from resources.guide.facts import Facts, collect_facts
from resources.guide.network import Weights, first_weights, forward, save_network
from resources.guide.recipe import TINY, Schedule, Shape
from resources.guide.tokens import ChatTokens, Encoded, encode_turns, pack, save_tokenizer, train_tokenizer
from resources.guide.topics import all_topics

TOKENIZER_TURNS = 120_000
MANIFEST = "guide.json"


@dataclass(frozen=True, slots=True)
class Material:
    """Everything training needs besides weights."""

    facts: Facts
    tokenizer: bytes
    tokens: ChatTokens
    encoded: Encoded


def prepare(shape: Shape, schedule: Schedule, seed: int, workers: int) -> Material:
    """Draw the text, train the tokenizer on it, and encode it; the same on every machine for one seed."""
    facts = collect_facts()
    turns = list(draw_turns(facts, seed, range(schedule.chunks), workers))
    tokenizer = train_tokenizer(_tokenizer_text(facts, turns), shape.vocab_size)
    tokens = ChatTokens(tokenizer)
    systems = Corpus(facts).systems(seed, 200)
    return Material(facts, tokenizer, tokens, encode_turns(tokens, turns, systems, seed))


def _tokenizer_text(facts: Facts, turns: list[Turn]) -> list[str]:
    answers = [answer for topic in all_topics(facts) for answer in topic.answers]
    return [turn.question for turn in turns[:TOKENIZER_TURNS]] + answers * 50


def train(
    shape: Shape, schedule: Schedule, material: Material, seed: int, report: Callable[[str], None]
) -> Weights:
    """Train and return the running average of the weights (float32)."""
    mx.random.seed(seed)
    weights = first_weights(shape, seed)
    average = tree_map(lambda value: mx.array(value), weights)
    optimizer = _optimizer(schedule)
    optimizer.init(weights)
    compute = mx.float32 if mx.default_device() == mx.Device(mx.cpu) else mx.bfloat16

    def loss(w: Weights, ids: mx.array, weight: mx.array) -> mx.array:
        cast = {name: value.astype(compute) for name, value in w.items()}
        logits = forward(cast, shape, ids[:, :-1], schedule.dropout)
        losses = nn.losses.cross_entropy(logits.astype(mx.float32), ids[:, 1:])
        return (losses * weight).sum() / weight.sum()

    state = [optimizer.state, mx.random.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step(w: Weights, kept: Weights, ids: mx.array, weight: mx.array) -> tuple[Weights, Weights, mx.array]:
        value, gradients = mx.value_and_grad(loss)(w, ids, weight)
        gradients, _ = optimizers.clip_grad_norm(gradients, 1.0)
        w = optimizer.apply_gradients(gradients, w)
        kept = {name: schedule.average * kept[name] + (1 - schedule.average) * w[name] for name in w}
        return w, kept, value

    draw = np.random.default_rng(seed)
    shares = [rows.share for rows in schedule.rows]
    started = time.monotonic()
    for number in range(schedule.steps):
        rows = schedule.rows[draw.choice(len(shares), p=shares)]
        ids, weight = pack(material.tokens, material.encoded, rows, schedule.asked_weight, draw)
        weights, average, value = step(weights, average, mx.array(ids), mx.array(weight))
        mx.async_eval(weights, average, value, state)
        if (number + 1) % max(1, schedule.steps // 10) == 0:
            report(f"step {number + 1}: loss {value.item():.3f}, {time.monotonic() - started:.0f} s")
    mx.eval(average)
    return average


def _optimizer(schedule: Schedule) -> optimizers.AdamW:
    rise = optimizers.linear_schedule(1e-6, schedule.peak, schedule.warmup)
    fall = optimizers.cosine_decay(schedule.peak, schedule.steps - schedule.warmup, schedule.peak / 100)
    rate = optimizers.join_schedules([rise, fall], [schedule.warmup])
    return optimizers.AdamW(rate, betas=[0.9, 0.98], weight_decay=schedule.decay)


def quick_answers(
    w: Weights, shape: Shape, tokens: ChatTokens, questions: list[str], most: int = 90
) -> list[str]:
    """Greedy answers to many questions at once, without a cache: for choosing between trainings only."""
    prompts = [tokens.prompt(question) for question in questions]
    ids = np.zeros((len(prompts), max(map(len, prompts)) + most), np.int32)
    for row, prompt in enumerate(prompts):
        ids[row, : len(prompt)] = prompt
    ends = np.array([len(prompt) for prompt in prompts])
    done = np.zeros(len(prompts), bool)
    run = mx.compile(lambda w, ids, last: forward(w, shape, ids)[mx.arange(len(prompts)), last].argmax(-1))
    for _ in range(most):
        chosen = np.array(run(w, mx.array(ids), mx.array(ends - 1)))
        ids[np.arange(len(prompts)), ends] = np.where(done, 0, chosen)
        done |= chosen == tokens.end
        ends = ends + ~done
        if done.all():
            break
    starts = [len(prompt) for prompt in prompts]
    return [tokens.pieces.decode(row[a:b].tolist()) for row, a, b in zip(ids, starts, ends, strict=True)]


def judge(w: Weights, shape: Shape, material: Material) -> tuple[float, list[str]]:
    """Share of the development questions answered right, and a line for each miss."""
    asked = read_asked(HERE / "dev.jsonl")
    topics = {topic.id: topic for topic in all_topics(material.facts)}
    answers = quick_answers(w, shape, material.tokens, [each.question for each in asked])
    pairs = zip(asked, answers, strict=True)
    misses = [f"{a.topic}: {a.question} -> {text}" for a, text in pairs if not topics[a.topic].accepts(text)]
    return 1 - len(misses) / len(asked), misses


def trained_on(facts: Facts) -> dict[str, object]:
    """What a manifest records of the facts and answers, to tell when a model is stale."""
    answers = {topic.id: topic.answers for topic in all_topics(facts)}
    digest = hashlib.sha256(json.dumps(answers, sort_keys=True).encode()).hexdigest()
    return {"facts": json.loads(json.dumps(asdict(facts))), "answers_sha256": digest}


def save(folder: Path, w: Weights, shape: Shape, schedule: Schedule, material: Material, seed: int) -> None:
    """Write the whole model folder and its manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    save_tokenizer(folder, material.tokenizer)
    save_network(folder, w, shape, material.tokens.bos, material.tokens.end)
    manifest = {
        "about": "MLXR's built-in guide: trained from scratch by resources/guide/train.py",
        "parameters": sum(value.size for value in w.values()),
        **trained_on(material.facts),
        "seed": seed,
        "shape": asdict(shape),
        "schedule": asdict(schedule),
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")


def main() -> None:
    """Train one guide and save it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the model")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="NAME=NUMBER", help="other numbers of the recipe"
    )
    parser.add_argument("--tiny", action="store_true", help="a few steps, to see that the recipe runs")
    args = parser.parse_args()
    shape, schedule = _other_numbers(Shape(), TINY if args.tiny else Schedule(), args.set)
    material = prepare(shape, schedule, args.seed, workers=os.cpu_count() or 1)
    print(f"{len(material.encoded.asked)} turns in {schedule.chunks} chunks of {CHUNK}")
    weights = train(shape, schedule, material, args.seed, print)
    save(args.out, weights, shape, schedule, material, args.seed)
    if not args.tiny:
        share, misses = judge(weights, shape, material)
        print(*misses, sep="\n")
        print(f"development questions answered right: {share:.1%}")


def _other_numbers(shape: Shape, schedule: Schedule, changes: list[str]) -> tuple[Shape, Schedule]:
    """Apply NAME=NUMBER changes to whichever of the two has that field. Raises ValueError when none has."""
    for name, _, number in (change.partition("=") for change in changes):
        if hasattr(shape, name):
            shape = replace(shape, **{name: type(getattr(shape, name))(number)})
        elif hasattr(schedule, name):
            schedule = replace(schedule, **{name: type(getattr(schedule, name))(number)})
        else:
            raise ValueError(f"--set {name}: the recipe has no such number")
    return shape, schedule


if __name__ == "__main__":
    main()
