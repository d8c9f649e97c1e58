"""One model as those see it that share the engine's thread with it."""

from __future__ import annotations

from engine.batcher import Batcher


class Neighbour:
    """What other models have to know of a model's requests, and what these have to know of them."""

    def __init__(self, batcher: Batcher) -> None:
        """`batcher`: has the requests."""
        self._batcher = batcher

    @property
    def answers(self) -> int:
        """How many run: their prompts are read."""
        return sum(sequence.pending <= 1 for sequence in self._batcher.running)

    @property
    def answer_seconds(self) -> float:
        """Seconds of a step of these, where there are any, and nothing else; 0 where nobody knows."""
        return self._batcher.chunks.alone(self.answers) or 0.0

    def held_up(self) -> None:
        """Another model works meanwhile, or is loaded: as a whole, no request tells what it takes."""
        for sequence in self._batcher:
            sequence.request.came_alone = False
