"""How a matrix-vector product is cut over a GPU: what to start with, and what is worth measuring."""

from __future__ import annotations

from dataclasses import dataclass

from metal.errors import KernelError
from metal.kernel import LANES, MAX_THREADS

MAX_ROWS = 8
"""Rows of x that a launch takes."""

_SIMDGROUPS = 2048  # that keep a large GPU busy: an H200 has 132 multiprocessors, of which each wants 16


@dataclass(frozen=True, slots=True)
class Cut:
    """Which is fastest depends on the machine and on the weight's size.

    Attributes:
        outputs: columns of the answer that a simdgroup takes, 1, 2, 4 or 8; with an activation, each two rows
            of the weight. Times the rows of x, up to a power of two, at most 32.
        simdgroups: of a threadgroup.
        unroll: 16-byte loads of each weight row that a lane issues before it uses one.
        split: simdgroups of a threadgroup that share columns, each with a part of the sum: 1, 2 or 4.
    """

    outputs: int
    simdgroups: int
    unroll: int
    split: int = 1

    def __post_init__(self) -> None:
        if self.outputs not in (1, 2, 4, 8) or self.split not in (1, 2, 4) or self.unroll < 1:
            raise KernelError(f"matvec: {self} is not supported; see Cut")
        if self.simdgroups % self.split or not self.split <= self.simdgroups <= MAX_THREADS // LANES:
            raise KernelError(f"matvec: {self.simdgroups} simdgroups in teams of {self.split}")

    def count(self, rows: int) -> int:
        """Sums that a simdgroup makes for `rows` rows of x, up to a power of two.

        Raises:
            KernelError: they are more than a simdgroup's lanes.
        """
        count = 1 << (self.outputs * rows - 1).bit_length()
        if count > LANES:
            raise KernelError(f"matvec: {self.outputs} outputs for {rows} rows are over {LANES} sums")
        return count


@dataclass(frozen=True, slots=True)
class Work:
    """A product's size: `rows` of x, `columns` of the answer, `width` summed over.

    Attributes:
        lane_width: elements of a weight row in one 16-byte load (8 of those for float32, which takes two).
        gated: whether each column takes two rows of the weight.
    """

    rows: int
    columns: int
    width: int
    lane_width: int
    gated: bool

    @property
    def is_packed(self) -> bool:
        """Whether a 16-byte load holds more weights than a dense one."""
        return self.lane_width > 8

    @property
    def steps(self) -> int:
        """Loads that the lanes of one simdgroup make along a row."""
        return -(-self.width // (self.lane_width * LANES))


def default_cut(work: Work) -> Cut:
    """The cut for a machine on which nothing has been measured."""
    # What is read and done for x is shared by the outputs; it is much for packed weights or many rows.
    outputs = 1 if work.columns < 4096 else 2
    if work.is_packed or work.rows > 1:
        outputs = 4 if work.rows > 2 else 2 * outputs
    if work.gated:
        outputs = max(1, outputs // 2)
    split = 1
    while split < 4 and work.columns * split < _SIMDGROUPS * outputs and work.steps >= 4 * split:
        split *= 2
    loads = 4 if outputs * (1 + work.gated) <= 2 else 2
    return Cut(outputs, 2 * split if split > 2 else 4, _unroll(work, loads, split), split)


# outputs, simdgroups, loads of a row under way, split; for a dense weight, and a packed one.
_DENSE = ((1, 8, 4, 1), (2, 4, 4, 1), (4, 4, 2, 1), (1, 8, 2, 4), (1, 8, 8, 1), (2, 8, 2, 2))
_PACKED = ((2, 8, 2, 1), (4, 4, 1, 1), (2, 8, 1, 2), (1, 8, 2, 1), (4, 4, 2, 1), (8, 4, 1, 1))


def candidates(work: Work) -> list[Cut]:
    """At most six cuts to measure, the default first."""
    found = [default_cut(work)]
    limit = LANES // (1 << (work.rows - 1).bit_length())
    offered = _PACKED if work.is_packed else _DENSE
    for outputs, simdgroups, loads, split in sorted(offered, reverse=True) if work.rows > 1 else offered:
        cut = Cut(outputs, simdgroups, _unroll(work, loads, split), split)
        if outputs <= limit and split <= work.steps and cut not in found:
            found.append(cut)
    return found[:6]


def _unroll(work: Work, loads: int, split: int) -> int:
    """At most `loads`, at most what a row has, and if few less will do so that no load needs a bound."""
    most = max(1, min(loads, work.steps // split))
    whole = [count for count in range(most, 0, -1) if work.width % (count * work.lane_width * LANES) == 0]
    return whole[0] if whole and whole[0] * 2 > most else most
