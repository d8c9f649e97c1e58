"""Who runs, on which pages: requests begin, share steps, and let go of them."""

from __future__ import annotations

from collections.abc import Iterator

from engine.cpu.aside import AsideBroke
from engine.kv.memory import KVMemory
from engine.kv.pager import OutOfPages, Pager
from engine.pacing.chunking import ChunkSizer
from engine.pacing.prompt_chunks import PromptChunks
from engine.pacing.ways import Way
from engine.requests.beginning import Beginning
from engine.requests.giving_way import GivingWay
from engine.requests.keeping import Keeping
from engine.requests.request import Request, Sequence
from engine.rest.warm_up import IsWarm
from engine.runner import Runner
from engine.scheduler import Scheduler
from engine.steps.batch import Sent, send, send_draft


class Batcher:
    """The sequences of one model's requests, waiting and running.

    Attributes:
        chunks: how long prompts are cut.
        prompts: the chunks that are on their way through the model, and the next ones.
        keeping: what of them others may find.
        giving_way: how they make room for each other.
    """

    def __init__(self, memory: KVMemory, pager: Pager, chunks: ChunkSizer, is_warm: IsWarm) -> None:
        """`is_warm`: of steps of a sequence alone; a prompt's last few tokens make no others."""
        self.chunks = chunks
        self.prompts = PromptChunks(chunks, is_warm)
        self._memory, self._pager = memory, pager
        self._scheduler = Scheduler[Sequence]()
        self._beginning = Beginning(memory, pager, self._scheduler)
        self.keeping = Keeping(memory, pager, self._scheduler)
        self.giving_way = GivingWay(memory, pager, self._scheduler, self.keeping)
        self._is_awaited = False  # the step in flight, by one that begins when others have given way

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._scheduler)

    @property
    def running(self) -> tuple[Sequence, ...]:
        """Those that hold pages, best rank first."""
        return self._scheduler.running

    @property
    def next(self) -> Sequence | None:
        """Who begins next, as soon as there is room."""
        return self._scheduler.next

    @property
    def stepping(self) -> tuple[Sequence, ...]:
        """Those of `running` whose tokens the next step computes: a suspect's alone, where there is one."""
        running = self._scheduler.running
        return tuple([s for s in running if s.request.suspicion]) or running

    @property
    def busy(self) -> bool:
        """Whether there is any sequence."""
        return bool(self._scheduler.running or self._scheduler.waiting)

    @property
    def has_one(self) -> bool:
        """Whether a single sequence is all there is."""
        return len(self._scheduler.running) + self.waiting == 1

    @property
    def waiting(self) -> int:
        """How many do not."""
        return len(self._scheduler.waiting)

    def add(self, request: Request) -> None:
        """Queue an accepted request; its other answers join when its prompt is computed."""
        self._scheduler.add(request.sequences[0])

    def start(self, before: Sent | None) -> Sequence | None:
        """Let the next one begin, on what memory has of its tokens; None when nobody can.

        Those ranked behind it give way where their pages are enough for it: as soon as `before`, the step
        that is in flight, was read.
        """
        sequence, self._is_awaited = self._scheduler.next, False
        if sequence is None:
            return None
        if not self._beginning.is_possible(sequence):
            victims = self._beginning.victims(sequence)
            self._is_awaited = bool(victims)
            if before is not None or not victims:
                return None
            for victim in victims:
                self.giving_way.give_way(victim)
        sequence.table = self._memory.begin(sequence.known, sequence.request.owner)
        sequence.may_restore, sequence.kept = True, sequence.table.length
        sequence.request.progress.begin()
        self._scheduler.start(sequence)
        return sequence

    def can_begin(self, newcomer: Sequence) -> bool:
        """Whether it could begin before any running answer ends, as could who is to begin first."""
        first = [other for other in self._scheduler.waiting[:1] if other.turn <= newcomer.turn]
        begin = self._beginning
        return all(begin.is_possible(each) or begin.victims(each) for each in [*first, newcomer])

    def send(self, runner: Runner, before: Sent | None) -> Sent | None:
        """The next step; None when there is nothing to compute before the last one is read.

        Raises OutOfPages when the only sequence that runs cannot get on.
        """
        if before is not None and self._is_awaited:
            return None
        decoding = self._decoding(runner, before)
        if sent := self._send_draft(runner, decoding):
            return sent
        decoding = self.giving_way.with_room(decoding, is_sent=before is not None)
        running = self._scheduler.running
        filling = self._filling(runner, len(decoding), before)
        if running is not self._scheduler.running:  # some gave way to the chunk
            decoding = [each for each in decoding if each in self._scheduler.running]
        if not decoding and filling is None:
            if before is None:
                self.giving_way.put_off(self.stepping)
            return None
        layers = self.prompts.layers(runner, filling, len(decoding))
        wait = self.prompts.patience(filling, len(decoding))
        try:
            sent = send(runner, decoding, filling, layers, before, wait)
        except AsideBroke as error:  # before anything was sent: all that others have is whole
            self.prompts.broke(filling, error)
            return self.send(runner, before)
        for sequence in sent.sequences:
            sequence.is_in_flight = True
            if sequence.index and not sequence.request.has_opened:
                sequence.table = self._memory.fork(sequence.request.sequences[0].table)
                self._scheduler.join(sequence)
        for sequence in sent.sequences:
            sequence.request.has_opened = True
        return sent

    def pace(self, runner: Runner, sent: Sent) -> None:
        """A step was read: wait for its tokens' time, where they come evenly beside a prompt's process."""
        sequence = self._scheduler.filling
        filling = None if sequence is None or not sequence.goes(Way.ASIDE) else sequence.filling
        if filling is not None and sent.answers:
            runner.wait_for_aside(filling, self.prompts.pace(sent.answers))

    def forget(self, chat: str) -> None:
        """Those that were asked for `chat` until now go on, and nothing of them is kept."""
        for sequence in self._scheduler:
            if sequence.request.command.chat == chat:
                sequence.request.is_forgotten = True

    def trim(self) -> None:
        """Give back pages that windows have left."""
        for sequence in self._scheduler.running:
            # What is behind a token of a draft in flight that does not stay sees further back.
            self._memory.trim(sequence.table, sequence.length)

    def release(self, sequence: Sequence) -> None:
        """It has ended."""
        sequence.drop_filling()
        self.prompts.ended(sequence)
        self._memory.free(sequence.table)
        self._scheduler.remove(sequence)

    def restart(self, sequence: Sequence) -> None:
        """It runs, and goes back to the queue with the tokens that are known; its pages are lost."""
        sequence.is_in_flight = False
        sequence.drop_filling()
        keys = sequence.sampler.keys
        keys.rewind(min(keys.drawn, len(sequence.generated)))  # what was drawn and not read
        self._memory.free(sequence.table)
        self._scheduler.give_way(sequence)

    def _decoding(self, runner: Runner, before: Sent | None) -> list[Sequence]:
        """Who decodes in the next step: first those whose last token is in flight, in that step's order."""
        known: list[Sequence] = []
        flying: list[Sequence] = []
        looks_ahead = runner.looks_ahead
        for sequence in self.stepping:
            if sequence.is_in_flight:
                if looks_ahead and sequence.may_go_on and not self._is_read_first(sequence, before):
                    flying.append(sequence)
            elif sequence.pending == 1 and not sequence.may_restore:
                known.append(sequence)
        rows = {sequence: row for row, sequence in enumerate(before.sequences)} if before else {}
        return [*sorted(flying, key=lambda sequence: rows[sequence]), *known]

    def _is_read_first(self, sequence: Sequence, before: Sent | None) -> bool:
        """Whether its next step is built when the one in flight was read.

        That step is a draft, or the next one will be; or it has an answer's first token, which somebody waits
        for: building and sending another step would hold it up.
        """
        is_drafted = before is not None and before.draft is not None
        is_alone = len(self._scheduler.running) == 1
        return is_drafted or (is_alone and (sequence.wants_draft or not sequence.generated))

    def _send_draft(self, runner: Runner, decoding: list[Sequence]) -> Sent | None:
        """A step that checks a draft, where there is one and its sequence runs alone.

        It foretells this step and no later one: beside others it is dropped.
        """
        draft = decoding[0].draft if decoding else None
        for sequence in decoding:
            sequence.draft = None
        if draft is None or len(self._scheduler.running) != 1:
            return None
        (sequence,) = decoding
        if sequence.is_in_flight:
            return None
        try:
            self._memory.grow(sequence.table, sequence.table.length + 1 + len(draft.tokens))
        except OutOfPages:
            return None  # one token may find room
        sequence.is_in_flight = True
        return send_draft(runner, sequence, draft)

    def _filling(self, runner: Runner, answers: int, before: Sent | None) -> Sequence | None:
        """Whose prompt the next step works on; its chunk is chosen, and there is room for it."""
        if answers == len(self._scheduler.running):
            return None  # all of them decode
        pending = [sequence for sequence in self.stepping if sequence.pending > 1]
        for sequence in sorted(pending, key=lambda sequence: sequence.turn):
            if sequence.may_restore:
                return None
            if sequence.filling is None:
                size, way = self.prompts.next(runner, sequence, answers)
                if not self.giving_way.has_room(sequence, size, is_sent=before is not None):
                    continue  # what it waits for may be the pages of one whose turn is later
                self.prompts.begin(sequence, size, way)
            is_left_out = answers and not sequence.goes(Way.ASIDE) and self.chunks.leaves_answers_alone()
            return None if is_left_out else sequence
        return None
