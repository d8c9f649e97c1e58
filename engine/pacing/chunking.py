"""How many prompt tokens to compute at a time, and how many layers of them in a step."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from statistics import median

from engine.cpu.aside_pace import AsidePace
from engine.pacing.slices import DISPATCH_SECONDS, Size, SliceSizer
from engine.pacing.ways import FREE, Mixing, Way, Ways
from engine.residents.elsewhere import NOBODY

COMMON = 256
"""Chunks of as many tokens or more are powers of two, and end at multiples."""

LONG = 2048
"""Prompts of any length are cut into chunks of as many tokens or more, where the machine is fast enough.

Of more these are powers of two, or half as many again, and always common: what is left is cut shorter.
"""

_STEPS_KEPT = 31
"""Of answers alone: a host is slow for a tenth of a second, and quick for another."""
_RATES_KEPT = 3
_FIRST_PAGES, _FIRST_STEPS = 8, 4
"""Of the first chunk that is ever computed: nobody knows how long it takes."""
_LENIENT = 1.5
"""Times DISPATCH_SECONDS that a step may take, so that chunks are not cut for little."""
_APART = 16
"""Steps beside answers after which there is one without a prompt: by what those take slices are judged, and a
host may be slower than a moment ago."""
_ASIDE, _ASIDE_SECONDS = 3, 4.0
"""Of a chunk in a process of its own: times the tokens of others at most, and for how long alone. Between two
of them nothing is computed for 0.04 s."""
_LAUNCHED = 0.2
"""Share of its work that each layer more of a step costs: a host launches it."""
_FINER = 2
"""Sizes of short chunks from one to one of twice the tokens."""


def is_common(begin: int, tokens: int) -> bool:
    """Whether the chunk from token `begin` on is one that many prompts have: one of `common_chunks`."""
    is_cut = tokens >= COMMON and tokens == _common_size(tokens) and begin % tokens == 0
    return is_cut and (begin <= tokens or tokens >= LONG)


def common_chunks(most: int, length: int) -> list[tuple[int, int]]:
    """The first token and the number of tokens of the common chunks, of prompts up to `length` tokens.

    Of `most` tokens at most: those with which chunks grow to their size, and the long ones behind.
    """
    sizes = list[int]()
    while most >= COMMON:
        sizes.insert(0, _common_size(most))
        most = sizes[0] - 1
    begins = [(begin, size) for size in sizes for begin in range(0, length - size + 1, size)]
    return [(begin, size) for begin, size in begins if is_common(begin, size)]


def _common_size(most: int) -> int:
    """The largest size of common chunks that is at most so much, which is COMMON or more."""
    power = 1 << (most.bit_length() - 1)
    between = power + power // 2
    return between if between % LONG == 0 and between <= most else power


class ChunkSizer:
    """Chooses chunks of prompts and slices of chunks, from what steps before took.

    Alone, a step takes about DISPATCH_SECONDS: a chunk goes through all layers in it, or, where even few
    tokens take longer, some layers at a time; each chunk reads all weights once, so that it is no short one
    then. Beside running answers there are two ways (engine/pacing/ways.py). A step computes a slice of a
    long chunk, one layer at least, apart from the answers' tokens: good where a product of few rows costs
    nearly as much as one of many. Or a few tokens of the prompt are rows of the answers' own products: good
    where these wait for the weights to be read. That one compiles, where kernels are compiled, and is slow on
    many machines: then it is tried only where it was measured at rest, and promises more.

    Beside answers of another model a step is a slice of the first kind, and takes as long as one among these
    might add to theirs.

    Attributes:
        elsewhere: what other models are at.
    """

    def __init__(
        self,
        most: int,
        page_size: int,
        layers: int,
        longest: int = 0,
        mixing: Callable[[], Mixing] = lambda: FREE,
    ) -> None:
        """Chunks have `most` tokens, whole pages where possible, in a model of so many `layers`.

        Where they go through it beside answers, some layers at a time, they may have `longest`, if that is
        more. `mixing`: whether they may go with answers' tokens, with the kernels of the moment.
        """
        self._most, self._page_size, self._layers = most, page_size, layers
        self._longest = max(most, longest)
        self._rates = deque[float](maxlen=_RATES_KEPT)
        self._slices = SliceSizer(self._sizes())
        self._between = SliceSizer(self._sizes())  # steps of other models' answers
        self._mixed = SliceSizer(self._mixed_sizes(), more=0.0)
        self.elsewhere = NOBODY
        self._ways, self._mixing = Ways(), mixing
        self._since_alone = 0
        self._decode_seconds = defaultdict[int, deque[float]](lambda: deque(maxlen=_STEPS_KEPT))
        self._medians = dict[int, float]()
        self._aside_pace = AsidePace()

    @property
    def rate(self) -> float:
        """Prompt tokens per second, the best of the last measurements; 0 before the first.

        A step that compiled something, or waited for somebody, says nothing about the next.
        """
        return max(self._rates, default=0.0)

    def next(self, begin: int, remaining: int, answers: int = 0) -> int:
        """Tokens of the next chunk, 1 … remaining, from token `begin` on, beside so many running answers."""
        if not answers and not self.elsewhere.answers:
            alone = int(self.rate * DISPATCH_SECONDS) if self._rates else _FIRST_PAGES * self._page_size
            alone = max(alone, COMMON) if self._rates else alone
            return self._cut(begin, remaining, self._whole(alone, self._most))
        if self._mixes:
            return min(remaining, self._size(self._mixed, answers).tokens)
        return self._cut(begin, remaining, self._fitting(begin, remaining, answers))

    def aside(self, remaining: int) -> int:
        """Tokens of the next chunk of a prompt in a process of its own, 1 … remaining.

        As many as it takes some seconds for: what another prompt, that goes before it, takes it back from.
        """
        most = min(_ASIDE * self._most, self._longest)
        longest = min(max(int(self.rate * _ASIDE_SECONDS), COMMON), most)
        return remaining if remaining <= min(longest + COMMON, most) else longest

    def aside_seconds(self, answers: int, busy: float) -> float:
        """What a step of so many answers may take beside such a chunk: see AsidePace."""
        return self._aside_pace.seconds(answers, busy, self.alone(answers) or 0.0)

    def steps(self, tokens: int) -> int:
        """In how many of them a chunk of so many tokens is computed alone."""
        return -(-self._layers // self.layers(tokens, self._layers))

    def way(self, tokens: int, answers: int) -> Way:
        """How the next chunk, of so many tokens, goes beside so many answers on the same thread."""
        return Way.MIXED if self._mixes and answers > 0 and tokens > 1 else Way.APART

    def layers(self, tokens: int, left: int, answers: int = 0) -> int:
        """Of the layers that are left of a chunk, those that the next step computes, 1 … left."""
        most = left
        if answers or self.elsewhere.answers:
            most = min(left, self._layers_of(tokens, answers))
        elif self._rates:
            most = min(left, int(_LENIENT * self._layers * self.rate * DISPATCH_SECONDS / tokens))
        elif tokens > self._page_size:
            most = max(1, self._layers // _FIRST_STEPS)
        return -(-left // -(-left // max(1, most)))  # the same in each of the steps it takes

    def filled(
        self, tokens: int, share: float, seconds: float, answers: int = 0, way: Way = Way.APART
    ) -> None:
        """A step with that share of all layers of so many prompt tokens, beside answers, took `seconds`.

        One without a layer says nothing, nor does one that only stored what another thread had computed.
        """
        if seconds <= 0 or not share or way is Way.ASIDE:
            return
        if answers:
            self._since_alone += 1
            alone = self.alone(answers)
            if alone:
                is_mixed = way is Way.MIXED
                sizer = self._mixed if is_mixed else self._slices
                sizer.took(Size(tokens, round(share * self._layers)), seconds, alone, self._token())
                may = self._slices.may(alone)
                mixed, apart = self._mixed.pace(alone, may), self._slices.pace(alone, may)
                may_try = self._mixes or self._mixing().is_promising(apart, self._layers, alone, may)
                self._ways.took(is_mixed=is_mixed, mixed=mixed, apart=apart, may_try=may_try)
        elif self.elsewhere.answers:
            if alone := self.elsewhere.seconds:
                size = Size(tokens, round(share * self._layers))
                self._between.took(size, alone + seconds, alone, self._token())
        elif tokens * share >= min(self._page_size, 8):
            self._rates.append(tokens * share / seconds)

    def decoded(self, answers: int, seconds: float) -> None:
        """A step of so many answers, and nothing else, took `seconds`."""
        self._aside_pace.went_alone()
        self._decode_seconds[answers].append(seconds)
        self._medians.pop(answers, None)

    def leaves_answers_alone(self) -> bool:
        """Whether the next step is to have none of a prompt's tokens, so that what answers take is known."""
        is_due = self._since_alone >= _APART
        if is_due:
            self._since_alone = 0
        return is_due

    @property
    def _mixes(self) -> bool:
        """Whether a prompt goes with answers' tokens; not with kernels that are new since that was found."""
        return self._ways.is_mixed and self._mixing().is_allowed

    def _size(self, sizer: SliceSizer, answers: int) -> Size:
        alone = self.alone(answers) if answers else self.elsewhere.seconds
        return sizer.next(alone or 0.0, self._token())

    def _slicing(self, answers: int) -> SliceSizer:
        """By what slices are chosen beside so many answers here, or with none beside those elsewhere."""
        return self._slices if answers else self._between

    def _token(self) -> float:
        """Seconds that a layer takes for a token of a prompt alone; 0 before the first measurement."""
        return 1 / (self.rate * self._layers) if self._rates else 0.0

    def _fitting(self, begin: int, remaining: int, answers: int) -> int:
        """Tokens of a common chunk from `begin` on, of which some layers are nearly as much work as a slice.

        Those of the slice itself, where it has few, or where no such chunk begins there.
        """
        slice_ = self._size(self._slicing(answers), answers)
        if slice_.tokens <= LONG:
            return slice_.tokens
        found, most, size = slice_.tokens, 0.0, self._whole(slice_.work, self._longest)
        while size >= LONG:
            layers = self._layers_of(size, answers)
            worth = size * layers / (1 + _LAUNCHED * (layers - 1))
            if size <= remaining and begin % size == 0 and worth > most:
                found, most = size, worth
            size = _common_size(size - 1)
        return found

    def _layers_of(self, tokens: int, answers: int) -> int:
        """Of a chunk of so many tokens, those that are as much work as a slice."""
        sizer = self._slicing(answers)
        slice_ = self._size(sizer, answers)
        if tokens < slice_.tokens:
            return sizer.most_layers(tokens)
        return max(1, min(self._layers, slice_.work // tokens))

    def _cut(self, begin: int, remaining: int, size: int) -> int:
        """So many tokens, or what is left; long chunks end at multiples, and longer ones are common."""
        while size > LONG and (size > remaining or begin % size):
            size = _common_size(size - 1)
        if size >= COMMON and size < remaining:
            size -= begin % size
        return max(1, min(size, remaining))

    def _whole(self, tokens: int, most: int) -> int:
        """At most so many tokens that a chunk may have: of a common one from COMMON on, else whole pages."""
        size = min(tokens, most)
        if size >= COMMON:
            return _common_size(size)
        return size - size % self._page_size if size > self._page_size else size

    def _sizes(self) -> list[Size]:
        """Slices to choose from, ascending: a layer of more and more tokens, then more and more layers.

        Two layers of fewer tokens come between one and two of the most, where there is such a size.
        """
        *fewer, most = self._tokens(self._longest)
        layers = [Size(most, layers) for layers in range(1, self._layers + 1)]
        if self._layers > 1 and fewer and most < 2 * fewer[-1] < 2 * most:
            layers.insert(1, Size(fewer[-1], 2))
        return [Size(size, 1) for size in fewer] + layers

    def _mixed_sizes(self) -> list[Size]:
        """All layers of more and more tokens."""
        return [Size(size, self._layers) for size in self._tokens(self._most)]

    def _tokens(self, most: int) -> list[int]:
        """Of chunks of at most `most`, ascending, from a page on."""
        least, most = min(self._page_size, most), self._whole(most, most)
        steps = range(_FINER * most.bit_length())
        sizes = {self._whole(int(least * 2 ** (step / _FINER) + 0.5), most) for step in steps}
        return sorted(size for size in sizes | {most} if size <= most)

    def alone(self, answers: int) -> float | None:
        """Seconds that a step of so many answers takes, by the nearest number that was measured; None before.

        The median of the latest: a step during which a request was taken in says nothing.
        """
        if not self._decode_seconds:
            return None
        nearest = min(self._decode_seconds, key=lambda known: abs(known - answers))
        if nearest not in self._medians:
            self._medians[nearest] = median(self._decode_seconds[nearest])
        return self._medians[nearest]
