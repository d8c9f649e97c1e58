// y[m, n] = epilogue(Σ_k weight[n, k] · x[m, k]) for M rows of x (M, K), 16 or 32, and weight (N, K), both of T, which has 16 bits. K
// is a multiple of 32, and N of 8.
//
// It is for rows that are too many for a matrix-vector product and too few to keep a device busy by themselves. How many bytes
// are under way is what counts, so matrices are loaded straight from memory. A simdgroup takes all rows and 8 · TILES columns (with
// ACTIVATION as many of gates and of ups, see matvec.metal), and loads 32 · UNROLL elements of all of them before it multiplies the
// first. SPLIT simdgroups take turns along K; in the end they meet in threadgroup memory, 8 rows at a time. Then BIAS is added (to
// gates and ups if there are any), and RESIDUAL (M, N) last.
#include "activation.h"

// Which element of the answer a thread makes of 8 rows: those of a tile follow each other, so that no two lanes ask one bank.
#define LOCATE(i)                                                                                   \
  const uint item = thread_index_in_threadgroup + (i) * (SIMDGROUPS * 32);                          \
  const uint row = item / 8 % 8, n = first_column + item / 64 * 8 + item % 8;                       \
  const bool is_mine = item < 8 * WIDE && n < N;

#pragma body
const uint EACH = (GATED ? 2 : 1) * TILES;
const uint TEAMS = SIMDGROUPS / SPLIT;
const uint WIDE = TEAMS * TILES * 8;  // columns of a threadgroup
const uint SPAN = UNROLL * 32;
const bool IS_WHOLE = K % SPAN == 0;
const uint ITEMS = (8 * WIDE - 1) / (SIMDGROUPS * 32) + 1;  // of 8 rows, that a thread writes
const uint PART = SIMDGROUPS * EACH * 64;
threadgroup_array(float, made, 2 * PART);

const uint simdgroup = simdgroup_index_in_threadgroup;
const uint share = simdgroup % SPLIT, team = simdgroup / SPLIT;
const uint first_column = threadgroup_position_in_grid.x * WIDE;
const uint first = first_column + team * TILES * 8;
const uint end = first < N ? K : 0;

// Columns past the last ones read the last ones' weights, and are not written.
const device T* columns[EACH];
#pragma unroll
for (uint i = 0; i < EACH; ++i) {
  const uint n = first + i % TILES * 8;
  columns[i] = weight + size_t(i / TILES * N + (n < N ? n : N - 8)) * K;
}

#if RESIDUAL
float before[M / 8 * ITEMS];
#pragma unroll
for (uint r = 0; r < M / 8; ++r)
#pragma unroll
  for (uint i = 0; i < ITEMS; ++i) {
    LOCATE(i)
    before[r * ITEMS + i] = is_mine ? to_float(residual[(r * 8 + row) * N + n]) : 0.0f;
  }
#endif

matrix8x8<float> sums[M / 8 * EACH];
#pragma unroll
for (uint i = 0; i < M / 8 * EACH; ++i) matrix_fill(sums[i], 0.0f);

for (uint span = share * SPAN; span < end; span += SPLIT * SPAN) {
  matrix8x8<T> weights[UNROLL * EACH * 4], held[UNROLL * M / 8 * 4];
#pragma unroll
  for (uint u = 0; u < UNROLL; ++u)
    if (IS_WHOLE || span + u * 32 < K) {
#pragma unroll
      for (uint i = 0; i < EACH; ++i)
        matrix_load_wide_transposed<4>(weights + (u * EACH + i) * 4, columns[i] + span + u * 32, K);
#pragma unroll
      for (uint r = 0; r < M / 8; ++r)
        matrix_load_wide<4>(held + (u * (M / 8) + r) * 4, x + r * 8 * K + span + u * 32, K);
    }
  // As in matvec.metal: no load crosses the barrier, so all of them are under way by then.
  simdgroup_barrier(mem_flags::mem_none);
#pragma unroll
  for (uint u = 0; u < UNROLL; ++u)
    if (IS_WHOLE || span + u * 32 < K) {
#pragma unroll
      for (uint q = 0; q < 4; q += 2)
#pragma unroll
        for (uint r = 0; r < M / 8; r += 2)
#pragma unroll
          for (uint i = 0; i < EACH; ++i)
            matrix_multiply_two(sums + r * EACH + i, EACH, held + (u * (M / 8) + r) * 4 + q,
                                held + (u * (M / 8) + r + 1) * 4 + q, weights + (u * EACH + i) * 4 + q, 1);
    }
}

// Two parts of threadgroup memory in turn: who writes one has met all who read it when the other was full.
#pragma unroll
for (uint r = 0; r < M / 8; ++r) {
  threadgroup float* part = made + r % 2 * PART;
#pragma unroll
  for (uint i = 0; i < EACH; ++i) matrix_store(sums[r * EACH + i], part + (simdgroup * EACH + i) * 64, 8);
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (uint i = 0; i < ITEMS; ++i) {
    LOCATE(i)
    if (is_mine) {
      const threadgroup float* mine = part + (item / 64 / TILES * SPLIT * EACH + item / 64 % TILES) * 64 + item % 64;
      float value = 0.0f;
#pragma unroll
      for (uint s = 0; s < SPLIT; ++s) value += mine[s * EACH * 64];
#if BIAS
      value += to_float(bias[n]);
#endif
#if GATED
      float up = 0.0f;
#pragma unroll
      for (uint s = 0; s < SPLIT; ++s) up += mine[(s * EACH + TILES) * 64];
#if BIAS
      up += to_float(bias[N + n]);
#endif
      value = activated(value) * up;
#endif
#if RESIDUAL
      value += before[r * ITEMS + i];
#endif
      y[(r * 8 + row) * N + n] = from_float<T>(value);
    }
  }
}
