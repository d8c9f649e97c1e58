// Weights of T out of GGUF's blocks of type BLOCK, one after the other as the blocks lie: of `sizes[1]` blocks from block `sizes[0]`
// on, so that bands of every matrix run one compiled text; see blocks.h.
//
// A thread unpacks a part of a block. The weights of a simdgroup's 32 parts are one run of memory, but a lane's are not: they
// meet in threadgroup memory, and are stored from there 8 to a lane, side by side.
#include "blocks.h"

#pragma body
threadgroup_array(T, staged, SIMDGROUPS * 32 * LANE_WEIGHTS);

const uint lane = thread_index_in_simdgroup;
const uint index = thread_position_in_grid.x;
const uint part = index % BLOCK_LANES, block = index / BLOCK_LANES;
const uint count = sizes[1];
threadgroup T* mine = staged + simdgroup_index_in_threadgroup * 32 * LANE_WEIGHTS;
if (block < count) {
  uint raw[RAW], words[WORDS];
  load_block(raw, weight + (size_t(sizes[0]) + block) * BLOCK_UNITS, part);
  arrange_block(words, raw, part);
  threadgroup T* own = mine + lane / BLOCK_LANES * BLOCK_WEIGHTS;
#pragma unroll
  for (uint i = 0; i < PIECES; ++i) {
    const uint piece = (i + turn_of(lane)) % PIECES;  // lanes that would meet in one bank take different ones
    store8(own + place_in_block(part, piece), weights_of(words, piece));
  }
}
simdgroup_barrier(mem_flags::mem_threadgroup);

const size_t first = size_t(index - lane) * LANE_WEIGHTS, end = size_t(count) * BLOCK_WEIGHTS;
#pragma unroll
for (uint i = 0; i < PIECES; ++i) {
  const uint at = (i * 32 + lane) * 8;
  if (first + at < end) store8(floats + first + at, load8(mine + at));
}
