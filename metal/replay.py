"""Recorded launches run again, in orders that arrays allow: what comes out must be the same, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import mlx.core as mx
import numpy as np

from metal.errors import KernelError
from metal.recorder import Bytes, Growth, Launch, Recorder, Step, Touch, bytes_of, pool_names

Choice = Callable[[Sequence[int]], int]
"""Takes one of the steps that may come next."""


def latest_first(ready: Sequence[int]) -> int:
    """The order that is furthest from the program's."""
    return max(ready)


def order(steps: Sequence[Step], choose: Choice) -> list[int]:
    """The numbers of `steps` in an order in which each comes after those whose arrays it takes."""
    missing = [len(step.after) for step in steps]
    followers: list[list[int]] = [[] for _ in steps]
    for number, step in enumerate(steps):
        for earlier in step.after:
            followers[earlier].append(number)
    ready = [number for number, count in enumerate(missing) if count == 0]
    done: list[int] = []
    while ready:
        done.append(choose(ready))
        ready.remove(done[-1])
        for follower in followers[done[-1]]:
            missing[follower] -= 1
            if missing[follower] == 0:
                ready.append(follower)
    return done


def random_order(steps: Sequence[Step], seed: int) -> list[int]:
    """An order drawn from `seed`."""
    return order(steps, Random(seed).choice)


class Replay:
    """The recorded steps on pools of their own."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._pools = [(mx.zeros_like(pool.keys), mx.zeros_like(pool.values)) for pool in recorder.pools]
        mx.eval(self._pools)
        self._grown = {step.what.target for step in recorder.steps if isinstance(step.what, Growth)}

    def run(self, numbers: Sequence[int]) -> list[str]:
        """Does the steps in this order, from the beginning; returns what came out differently, in words."""
        self._reset()
        differences: list[str] = []
        for number in numbers:
            step = self._recorder.steps[number]
            if isinstance(step.what, Growth):
                self._grow(step.what)
            elif isinstance(step.what, Launch):
                made = self._launch(step.what, [touch.pool for touch in step.touches])
                if not _are_same(made, step.what.outputs):
                    differences.append(f"step {number}, {step.name}, made something else")
        for number, pool in enumerate(self._recorder.pools):
            for name, mine, its in zip(("keys", "values"), self._pools[number], pool.now, strict=True):
                if not np.array_equal(bytes_of(mine), its):
                    differences.append(f"{name} of pool {number} ended as something else")
        return differences

    def false_declarations(self, number: int) -> list[str]:
        """Where step `number`, a launch, touches other pages than it declares; in words.

        What it writes is what changes. What it reads is found by poison, bytes of 0xFF, which are NaN in
        every dtype: in all pages that it does not declare as read it must change nothing, in each one that it
        does it must change what the launch makes.
        """
        step = self._recorder.steps[number]
        if not isinstance(step.what, Launch):
            raise KernelError(f"step {number}, {step.name}, is no launch")
        return [
            wrong
            for layer in range(len(step.touches))
            for wrong in self._false_of(step.what, step.touches, layer)
        ]

    def _false_of(self, launch: Launch, touches: Sequence[Touch], layer: int) -> list[str]:
        """The same of the pools of one of the layers that it takes; the others stay as they are."""
        touch, pools = touches[layer], [touch.pool for touch in touches]
        reads, everything = touch.pages.reads, self._recorder.all_pages(touch.pool)
        for pool in pools:
            self._fill(pool, frozenset())
        fill = [mine.copy() for mine in self._bytes(touch.pool)]
        expected = self._effect(launch, pools, layer)
        changed = [mine != before for mine, before in zip(self._bytes(touch.pool), fill, strict=True)]
        size = self._recorder.page_size
        writes = frozenset(
            page for page in everything if any(c[:, page * size : (page + 1) * size].any() for c in changed)
        )
        wrong = [] if writes == touch.pages.writes else [f"writes {sorted(writes)}"]

        def is_changed_by(poisoned: frozenset[int]) -> bool:
            self._fill(touch.pool, poisoned)
            made = self._effect(launch, pools, layer)
            where = [np.ones_like(array, bool) for array in made[:-2]] + changed
            return any(
                not np.array_equal(mine[place], its[place])
                for mine, its, place in zip(made, expected, where, strict=True)
            )

        if is_changed_by(everything - reads):
            wrong.append("reads a page that it does not declare")
        unread = [page for page in sorted(reads) if not is_changed_by(everything - reads | {page})]
        return wrong + [f"does not read page {page}" for page in unread]

    def _effect(self, launch: Launch, pools: Sequence[int], layer: int) -> list[Bytes]:
        """The bytes of what it makes, then of keys and values of one of its layers."""
        made = self._launch(launch, pools)
        stored = [array.copy() for array in self._bytes(pools[layer])]
        return [bytes_of(array).copy() for array in made] + stored

    def _fill(self, pool: int, poisoned: frozenset[int]) -> None:
        """Random numbers, and poison in some pages."""
        random, size = np.random.default_rng(pool), self._recorder.page_size
        for array, mine in zip(self._pools[pool], self._bytes(pool), strict=True):
            numbers = mx.array(random.standard_normal(array.shape).astype(np.float32)).astype(array.dtype)
            mine[...] = bytes_of(numbers)
            for page in poisoned:
                mine[:, page * size : (page + 1) * size] = 0xFF

    def _reset(self) -> None:
        for number, pool in enumerate(self._recorder.pools):
            for mine, before in zip(self._bytes(number), pool.before, strict=True):
                mine[...] = 0 if number in self._grown else before

    def _grow(self, growth: Growth) -> None:
        for old, new in zip(self._bytes(growth.source), self._bytes(growth.target), strict=True):
            new[:, : old.shape[1]] = old

    def _launch(self, launch: Launch, pools: Sequence[int]) -> list[mx.array]:
        names = launch.signature.inputs
        inputs = dict(zip(names, launch.request.inputs, strict=True))
        for (keys, values), pool in zip(pool_names(launch.signature), pools, strict=True):
            inputs[keys], inputs[values] = self._pools[pool]
        return launch.launch(replace(launch.request, inputs=tuple(inputs[name] for name in names)))

    def _bytes(self, pool: int) -> list[Bytes]:
        return [bytes_of(array) for array in self._pools[pool]]


def _are_same(made: Sequence[mx.array], recorded: Sequence[mx.array]) -> bool:
    pairs = zip(made, recorded, strict=True)
    return all(np.array_equal(bytes_of(mine), bytes_of(its)) for mine, its in pairs)
