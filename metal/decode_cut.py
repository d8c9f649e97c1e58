"""How decode attention's work is cut into threadgroups, simdgroups and teams of lanes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from metal.attention_shape import AttentionShape
from metal.kernel import LANES

_PLENTY = 256
"""Threadgroups from which on smaller ones are faster: on an H200 at 32,768 keys (metal/RESULTS.md)."""
_MERGE_FLOATS = 4096
"""Threadgroup memory for joining simdgroups: 16 of the 32 KB there are."""


@dataclass(frozen=True, slots=True)
class DecodeCut:
    """How the work is cut; which is fastest depends on the machine.

    Attributes:
        partition: keys a threadgroup walks; fixed, so that sums do not depend on what else is in the batch.
        simdgroups: of a threadgroup, at least; as many more as it takes to give each new token a team.
        rows: most query rows that share one walk; a power of two to 8.
        keys: keys that a team of lanes takes at once; they lie in one page.
        ahead: whether a team asks for its next keys before it computes with these.
    """

    partition: int = 512
    simdgroups: int = 8
    rows: int = 8
    keys: int = 8
    ahead: bool = False


def cuts(shape: AttentionShape) -> tuple[DecodeCut, ...]:
    """The cuts worth measuring for `shape`, the default first. Their partitions are powers of two."""
    count = 4 if shape.head_dim > 128 else 8  # threadgroup memory is 32 KB
    return (
        DecodeCut(512, count),
        DecodeCut(512, count, rows=4, ahead=True),
        DecodeCut(256, count),
    )


def cut_for(cut: DecodeCut, groups: int) -> DecodeCut:
    """`cut`, or a smaller one where there are plenty of `groups`: heads times partitions of all sequences."""
    if groups < _PLENTY or cut.simdgroups < 8:
        return cut
    return replace(cut, simdgroups=4, rows=8, keys=4, ahead=True)


def sizes(shape: AttentionShape, cut: DecodeCut, tokens: int) -> dict[str, int]:
    """What the text is compiled with for `tokens` new tokens a sequence, by its names for them."""
    rows = min(cut.rows, _power_of_two(shape.group * tokens))
    team = _power_of_two(shape.head_dim // 8)
    simdgroups = max(cut.simdgroups, _power_of_two(-(-tokens * team // LANES)))
    return {
        "HEAD_DIM": shape.head_dim,
        "ROTARY": shape.rotary_dims,
        "GROUP": shape.group,
        "KV_HEADS": shape.kv_heads,
        "QKV_WIDTH": shape.qkv_width,
        "TOKENS": tokens,
        "ROWS": rows,
        "CHUNKS": -(-shape.group * tokens // rows),
        "SIMDGROUPS": simdgroups,
        "MERGED": min(simdgroups, _power_of_two_in(_MERGE_FLOATS // (rows * shape.head_dim))),
        "PLACES": -(-rows * shape.head_dim // (4 * LANES * simdgroups)),
        "TEAM": team,
        "TEAMS": simdgroups * LANES // team,
        "PARTITION": cut.partition,
        "KEYS": cut.keys,
        "PAGE": shape.page_size,
    }


def _power_of_two(count: int) -> int:
    """The smallest power of two that is at least `count`."""
    return 1 << (count - 1).bit_length()


def _power_of_two_in(count: int) -> int:
    """The largest power of two that is at most `count`, and at least 1."""
    return 1 << max(0, count.bit_length() - 1)
