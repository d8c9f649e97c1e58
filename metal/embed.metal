// Rows of an embedding table (vocab, WIDTH) by id: of T as they are, or with BITS 4 or 8 out of MLX's affine packing, where a
// group of GROUP elements has one scale and one bias: element = q · scale + bias.
//
// A thread makes 8 elements; element i of a word is its bits [i · BITS, (i + 1) · BITS). Or with BLOCK out of GGUF's blocks of that
// type, and a thread makes a part of one; see blocks.h.
#if BLOCK
#include "blocks.h"
#else
#define LANE_WEIGHTS 8
#endif

#pragma body
const uint piece = thread_position_in_grid.x;
const uint row = thread_position_in_grid.y;
const uint at = piece * LANE_WEIGHTS;
if (at >= WIDTH) return;
const size_t id = ids[row];
#if BLOCK
const uint start = at / BLOCK_WEIGHTS * BLOCK_WEIGHTS, part = piece % BLOCK_LANES;
uint raw[RAW], words[WORDS];
load_block(raw, table + (id * (WIDTH / BLOCK_WEIGHTS) + at / BLOCK_WEIGHTS) * BLOCK_UNITS, part);
arrange_block(words, raw, part);
#pragma unroll
for (uint i = 0; i < PIECES; ++i)
  store8(rows + size_t(row) * WIDTH + start + place_in_block(part, i), weights_of(words, i));
#elif BITS
const size_t first = (id * WIDTH + at) / (32 / BITS);
const float scale = to_float(scales[(id * WIDTH + at) / GROUP]), offset = to_float(biases[(id * WIDTH + at) / GROUP]);
float values[8];
#pragma unroll
for (uint i = 0; i < 8; ++i) {
  const uint word = table[first + i / (32 / BITS)];
  values[i] = to_float(word >> (i % (32 / BITS) * BITS) & ((1u << BITS) - 1u)) * scale + offset;
}
const vec8 found = {make_vec4(values[0], values[1], values[2], values[3]), make_vec4(values[4], values[5], values[6], values[7])};
store8(rows + size_t(row) * WIDTH + at, found);
#else
store8(rows + size_t(row) * WIDTH + at, load8(table + id * WIDTH + at));
#endif
