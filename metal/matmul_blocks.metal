// y[m, n] = Σ_k x[m, k] · W[n, k] for any number of rows of x (m, K), of T, and a weight in GGUF's blocks of type BLOCK; see
// blocks.h. `sizes` begins with the number of rows, so that prompts of every length run one compiled text.
//
// A threadgroup makes TALL rows by WIDE columns. STEP at a time along K, weights are made out of their blocks, as T, and lie
// beside rows of x in threadgroup memory; each of the SIMDGROUPS multiplies 8×8 matrices for its own columns, all rows.
// Sums are in float. Past the last row, column and element of K there are zeros.
#include "blocks.h"

#define STEP 128
#define STEP_PARTS (STEP / LANE_WEIGHTS)

#pragma body
const uint STRIDE = STEP + 16 / sizeof(T);  // rows of a tile begin in different banks
const uint WIDTH = WIDE / SIMDGROUPS;
threadgroup_array(T, left, TALL * STRIDE);
threadgroup_array(T, right, WIDE * STRIDE);
threadgroup_array(float, made, SIMDGROUPS * 64);

const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint rows = sizes[0];
const uint first_row = threadgroup_position_in_grid.y * TALL;
const uint first_column = threadgroup_position_in_grid.x * WIDE;

matrix8x8<float> sums[TALL / 8 * (WIDTH / 8)];
#pragma unroll
for (uint i = 0; i < TALL / 8 * (WIDTH / 8); ++i) matrix_fill(sums[i], 0.0f);

for (uint k = 0; k < K; k += STEP) {
  for (uint i = thread_index_in_threadgroup; i < TALL * (STEP / 8); i += SIMDGROUPS * 32) {
    const uint row = i / (STEP / 8), at = i % (STEP / 8) * 8;
    const bool is_there = first_row + row < rows && k + at < K;
    vec8 elements = {make_vec4(0.0f), make_vec4(0.0f)};
    if (is_there) elements = load8(x + size_t(first_row + row) * K + k + at);
    store8(left + row * STRIDE + at, elements);
  }
  for (uint i = thread_index_in_threadgroup; i < WIDE * STEP_PARTS; i += SIMDGROUPS * 32) {
    const uint row = i / STEP_PARTS, at = k + i % STEP_PARTS * LANE_WEIGHTS;
    const uint part = at / LANE_WEIGHTS % BLOCK_LANES, start = at / BLOCK_WEIGHTS * BLOCK_WEIGHTS;
    const bool is_there = first_column + row < N && at < K;
    uint raw[RAW], words[WORDS];
    if (is_there) {
      const size_t block = size_t(first_column + row) * (K / BLOCK_WEIGHTS) + at / BLOCK_WEIGHTS;
      load_block(raw, weight + block * BLOCK_UNITS, part);
      arrange_block(words, raw, part);
    }
#pragma unroll
    for (uint piece = 0; piece < PIECES; ++piece) {
      // A step begins with a block or in its middle, and its first parts have its first weights.
      const uint place = start + place_in_block(part, piece) - k;
      vec8 weights = {make_vec4(0.0f), make_vec4(0.0f)};
      if (is_there) weights = weights_of(words, piece);
      store8(right + row * STRIDE + place, weights);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint at = 0; at < STEP; at += 8) {
    matrix8x8<T> a, b[WIDTH / 8];
#pragma unroll
    for (uint c = 0; c < WIDTH / 8; ++c)
      matrix_load_transposed(b[c], right + (simdgroup * WIDTH + c * 8) * STRIDE + at, STRIDE);
#pragma unroll
    for (uint r = 0; r < TALL / 8; ++r) {
      matrix_load(a, left + r * 8 * STRIDE + at, STRIDE);
#pragma unroll
      for (uint c = 0; c < WIDTH / 8; ++c) matrix_multiply_accumulate(sums[r * (WIDTH / 8) + c], a, b[c]);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

threadgroup float* mine = made + simdgroup * 64;
#pragma unroll
for (uint i = 0; i < TALL / 8 * (WIDTH / 8); ++i) {
  matrix_store(sums[i], mine, 8);
  simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (uint j = 0; j < 2; ++j) {
    const uint row = first_row + i / (WIDTH / 8) * 8 + lane / 8 + j * 4;
    const uint column = first_column + simdgroup * WIDTH + i % (WIDTH / 8) * 8 + lane % 8;
    if (row < rows && column < N) y[size_t(row) * N + column] = from_float<T>(mine[lane + j * 32]);
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
}
