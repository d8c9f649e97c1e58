// y[m, n] = epilogue(Σ_k weight[n, k] · x[m, k]) for M rows of x (M, K), 16 or 32, and weight (N, K), both of T, which has 16 bits. K
// is a multiple of 32, and N of 8.
//
// It is for rows that are too many for a matrix-vector product and too few to keep a device busy by themselves. How many bytes
// are under way is what counts, so matrices are loaded straight from memory. A simdgroup takes all rows and 8 · TILES columns (with
// PAIRED as many and their partners), and loads 32 · UNROLL elements of all of them before it multiplies the first. SPLIT simdgroups
// take turns along K; in the end they meet in threadgroup memory, 8 rows at a time.
//
// With NORM x is normalised first, y[m] = norm · x[m] / sqrt(mean(x[m]²) + EPSILON): `norm` of T has a power of two left out, so
// that no product with an element of x is too large for T; that lies behind its K elements. BIAS is added (to both of a pair), and
// RESIDUAL (M, N) last.
//
// Pairs are a gate and an up with ACTIVATION (see matvec.metal). With PAGES they are elements of query, key and value heads that
// turn together (see rope.h): rotated queries are what is made, (heads, M, HEAD_DIM), and keys and values go to their slots of the
// pools, as page_write.metal has it. N is then the number of pairs. One threadgroup more copies a page: behind the slots of M rows lie
// source, target, how many of the first tokens are copied, no row being written among these, and the slots of a head.
#include "activation.h"

#define PAIRED (GATED || PAGES)

// Which element of the answer a thread makes of 8 rows: those of a tile follow each other, so that no two lanes ask one bank.
#define LOCATE(i)                                                                                   \
  const uint item = thread_index_in_threadgroup + (i) * (SIMDGROUPS * 32);                          \
  const uint row = item / 8 % 8, n = first_column + item / 64 * 8 + item % 8;                       \
  const bool is_mine = item < 8 * WIDE && n < N;

// The row of the weight of column n, or of its partner (1).
#if PAGES
#define WEIGHT_ROW(n, partner) ((n) / (HEAD_DIM / 2) * HEAD_DIM + (n) % (HEAD_DIM / 2) + (partner) * (HEAD_DIM / 2))
#else
#define WEIGHT_ROW(n, partner) ((partner) * N + (n))
#endif

#pragma body
#if PAGES
if (threadgroup_position_in_grid.x + 1 == threadgroups_per_grid.x) {
  const uint each = uint(16 / sizeof(T)), of_head = uint(slots[M + 2]) * HEAD_DIM / each;
  for (uint i = thread_index_in_threadgroup; i < KV_HEADS * of_head; i += SIMDGROUPS * 32) {
    const size_t base = size_t(i / of_head) * uint(slots[M + 3]) * HEAD_DIM + i % of_head * each;
    const size_t from = base + size_t(slots[M]) * (PAGE * HEAD_DIM), to = base + size_t(slots[M + 1]) * (PAGE * HEAD_DIM);
    const vec4 key = load4(reinterpret_cast<const device float*>(keys + from));
    const vec4 value = load4(reinterpret_cast<const device float*>(values + from));
    store4(reinterpret_cast<device float*>(writable(keys) + to), key);
    store4(reinterpret_cast<device float*>(writable(values) + to), value);
  }
  return;
}
#endif
const uint EACH = (PAIRED ? 2 : 1) * TILES;
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
  columns[i] = weight + size_t(WEIGHT_ROW(n < N ? n : N - 8, i / TILES)) * K;
}

// What the end needs is on its way first, and nothing is computed of it here: each would be a trip to memory there.
#if NORM
const float whole = to_float(norm[K]);
#endif
#if RESIDUAL
T before[M / 8 * ITEMS];
#pragma unroll
for (uint r = 0; r < M / 8; ++r)
#pragma unroll
  for (uint i = 0; i < ITEMS; ++i) {
    LOCATE(i)
    before[r * ITEMS + i] = residual[is_mine ? (r * 8 + row) * N + n : 0];
  }
#endif
#if PAGES
const uint room = uint(slots[M + 3]);
int slot[M / 8];
float cosines[M / 8 * ITEMS], sines[M / 8 * ITEMS];
#pragma unroll
for (uint r = 0; r < M / 8; ++r) {
  slot[r] = slots[r * 8 + thread_index_in_threadgroup / 8 % 8];
#pragma unroll
  for (uint i = 0; i < ITEMS; ++i) {
    const uint item = thread_index_in_threadgroup + i * (SIMDGROUPS * 32);
    const uint at = (r * 8 + item / 8 % 8) * HEAD_DIM + (first_column + item / 64 * 8 + item % 8) % (HEAD_DIM / 2);
    cosines[r * ITEMS + i] = angles[at];
    sines[r * ITEMS + i] = angles[at + HEAD_DIM / 2];
  }
}
#endif

matrix8x8<float> sums[M / 8 * EACH];
#pragma unroll
for (uint i = 0; i < M / 8 * EACH; ++i) matrix_fill(sums[i], 0.0f);

#if NORM
float squares[M / 8];
#pragma unroll
for (uint r = 0; r < M / 8; ++r) squares[r] = 0.0f;
#endif

for (uint span = share * SPAN; span < end; span += SPLIT * SPAN) {
  matrix8x8<T> weights[UNROLL * EACH * 4], held[UNROLL * M / 8 * 4];
#if NORM
  matrix8x8<T> norms[UNROLL * 4];
#endif
#pragma unroll
  for (uint u = 0; u < UNROLL; ++u)
    if (IS_WHOLE || span + u * 32 < K) {
#pragma unroll
      for (uint i = 0; i < EACH; ++i)
        matrix_load_wide_transposed_once<4>(weights + (u * EACH + i) * 4, columns[i] + span + u * 32, K);
#pragma unroll
      for (uint r = 0; r < M / 8; ++r)
        matrix_load_wide<4>(held + (u * (M / 8) + r) * 4, x + r * 8 * K + span + u * 32, K);
#if NORM
      matrix_read_wide<4>(norms + u * 4, norm + span + u * 32, thread_index_in_simdgroup);
#endif
    }
  // As in matvec.metal: no load crosses the barrier, so all of them are under way by then.
  simdgroup_barrier(mem_flags::mem_none);
#pragma unroll
  for (uint u = 0; u < UNROLL; ++u)
    if (IS_WHOLE || span + u * 32 < K) {
#if NORM
#pragma unroll
      for (uint r = 0; r < M / 8; ++r)
#pragma unroll
        for (uint q = 0; q < 4; ++q) {
          squares[r] += matrix_squares(held[(u * (M / 8) + r) * 4 + q]);
          matrix_weigh(held[(u * (M / 8) + r) * 4 + q], norms[u * 4 + q]);
        }
#endif
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

#if NORM
// A row's scale, of what the simdgroups of the first team have seen of it; the second part is not in use yet.
threadgroup float* shares = made + PART;
float scales[M / 8];
#pragma unroll
for (uint r = 0; r < M / 8; ++r) {
  const float sum = matrix_row_sum(squares[r]);
  const uint lane = thread_index_in_simdgroup;
  if (team == 0 && matrix_column(lane) == 0) shares[share * M + r * 8 + matrix_row(lane)] = sum;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
if (thread_index_in_threadgroup < M) {
  float sum = 0.0f;
#pragma unroll
  for (uint s = 0; s < SPLIT; ++s) sum += shares[s * M + thread_index_in_threadgroup];
  shares[SPLIT * M + thread_index_in_threadgroup] = whole * rsqrt(sum / float(K) + EPSILON);
}
threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
for (uint r = 0; r < M / 8; ++r) scales[r] = shares[SPLIT * M + r * 8 + thread_index_in_threadgroup / 8 % 8];
#endif

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
#if NORM
      value *= scales[r];
#endif
#if BIAS
      value += to_float(bias[WEIGHT_ROW(n, 0)]);
#endif
#if PAIRED
      float partner = 0.0f;
#pragma unroll
      for (uint s = 0; s < SPLIT; ++s) partner += mine[(s * EACH + TILES) * 64];
#if NORM
      partner *= scales[r];
#endif
#if BIAS
      partner += to_float(bias[WEIGHT_ROW(n, 1)]);
#endif
#endif
#if GATED
      value = activated(value) * partner;
#endif
#if RESIDUAL
      value += to_float(before[r * ITEMS + i]);
#endif
#if PAGES
      const uint m = r * 8 + row, head = n / (HEAD_DIM / 2), at = n % (HEAD_DIM / 2);
      if (head < HEADS + KV_HEADS) {
        const float cosine = cosines[r * ITEMS + i], sine = sines[r * ITEMS + i], first = value;
        value = first * cosine - partner * sine;
        partner = partner * cosine + first * sine;
      }
      if (head < HEADS) {
        const size_t place = (size_t(head) * M + m) * HEAD_DIM + at;
        queries[place] = from_float<T>(value);
        queries[place + HEAD_DIM / 2] = from_float<T>(partner);
      } else if (slot[r] >= 0) {
        const size_t place = (size_t((head - HEADS) % KV_HEADS) * room + uint(slot[r])) * HEAD_DIM + at;
        device T* const where = (head < HEADS + KV_HEADS ? writable(keys) : writable(values)) + place;
        where[0] = from_float<T>(value);
        where[HEAD_DIM / 2] = from_float<T>(partner);
      }
#else
      y[(r * 8 + row) * N + n] = from_float<T>(value);
#endif
    }
  }
}
