// Prefill attention over pages: many new tokens a sequence, which are in pages already, attend to all up to themselves.
//
// A threadgroup takes one key/value head of one sequence and 8 · SIMDGROUPS of its query rows: heads of the group × new
// tokens, token after token, so that all heads of a group share what is read. It walks the keys that these rows see, KEYS at
// a time, from page to threadgroup memory; each simdgroup holds 8 rows and their sums (FlashAttention-2, Dao 2023,
// arXiv:2307.08691). A key outside of what the rows see is a row of zeros there: its slot may never have been written.
//
// Nobody may look inside a matrix, so scores go through threadgroup memory, where four lanes do a row's softmax (exp2, in
// float), and sums are rescaled by a diagonal matrix: only when a maximum grew by more than SLACK, for weights up to
// 2^SLACK are as exact as those up to 1.
//
// SPLIT: few rows behind many keys would leave most of a device idle. So several threadgroups walk a part each of the keys of
// the same rows, and `out` is (rows, parts, HEAD_DIM), not yet divided, with (maximum, sum) per row and part in `sums`, for
// attention_reduce; of a part in which a row sees nothing, only a sum of 0. The parts of a tile are as long as each other, whatever
// its keys are.
#define MASKED -1.0e38f
#define LOWEST -1.0e30f
#define SLACK 8.0f
#define EACH uint(16 / sizeof(T))
#define PIECES (HEAD_DIM / EACH)
#define ROWS (8 * SIMDGROUPS)

// AHEAD: the next block of keys is on its way while this one is computed.
#define LOAD_BLOCK(block)                                                                                               \
  _Pragma("unroll") for (uint i = 0; i < VECTORS; ++i) {                                                                \
    const uint piece = index + i * (SIMDGROUPS * 32);                                                                   \
    const int key = (block) + int(piece / PIECES);                                                                      \
    k_rows[i] = v_rows[i] = make_vec4(0.0f);                                                                            \
    if (piece < KEYS * PIECES && key >= lowest && key < end) {                                                          \
      const uint page = uint(tables[sequence * uint(sizes[0]) + uint(key) / PAGE]);                                     \
      const size_t place =                                                                                              \
          (size_t(kv_head) * slots + page * PAGE + uint(key) % PAGE) * HEAD_DIM + piece % PIECES * EACH;                \
      k_rows[i] = load4(reinterpret_cast<const device float*>(keys + place));                                           \
      v_rows[i] = load4(reinterpret_cast<const device float*>(values + place));                                         \
    }                                                                                                                   \
  }

#pragma body
threadgroup_array(T, query_tile, ROWS * STRIDE);
threadgroup_array(T, key_tile, KEYS * STRIDE);
threadgroup_array(T, value_tile, KEYS * STRIDE);
threadgroup_array(float, scratch, ROWS * WIDE);
threadgroup_array(float, diagonals, SIMDGROUPS * 64);

const uint index = thread_index_in_threadgroup;
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint kv_head = threadgroup_position_in_grid.y;
#if SPLIT
const uint parts = uint(sizes[3]);
const uint sequence = threadgroup_position_in_grid.z / parts, my_part = threadgroup_position_in_grid.z % parts;
#else
const uint sequence = threadgroup_position_in_grid.z;
#endif
const uint slots = uint(pool[0]), rows = uint(sizes[1]);

if (threadgroup_position_in_grid.x == 0 && kv_head == 0 && threadgroup_position_in_grid.z == 0 && index < 8)
  next_fence[index] = 0;

// The last rows see the most keys: they begin first.
const int first_item = int((threadgroups_per_grid.x - 1 - threadgroup_position_in_grid.x) * ROWS);
const int first_row = offsets[sequence];
const int items = (offsets[sequence + 1] - first_row) * GROUP;
const int history = lengths[sequence];
if (history < 0 || first_item >= items) return;

#if WINDOW
const int window = sizes[2];
const int tile_lowest = max(0, history + first_item / GROUP + 1 - window);
#else
const int tile_lowest = 0;
#endif
const int tile_end = history + (min(first_item + ROWS, items) - 1) / GROUP + 1;
#if SPLIT
const int blocks = (tile_end + KEYS - 1) / KEYS - tile_lowest / KEYS;
const int length = (blocks + int(parts) - 1) / int(parts) * KEYS;
const int part_begin = tile_lowest / KEYS * KEYS + int(my_part) * length;
const int lowest = max(tile_lowest, part_begin), end = min(tile_end, part_begin + length);
#else
const int lowest = tile_lowest, end = tile_end;
#endif

for (uint piece = index; piece < ROWS * PIECES; piece += SIMDGROUPS * 32) {
  const uint tile_row = piece / PIECES, at = piece % PIECES * EACH;
  const int item = first_item + int(tile_row);
  vec4 q = make_vec4(0.0f);
  if (item < items) {
    const uint head = kv_head * GROUP + uint(item) % GROUP, row = uint(first_row) + uint(item) / GROUP;
    q = load4(reinterpret_cast<const device float*>(queries + (size_t(head) * rows + row) * HEAD_DIM + at));
  }
  store4(reinterpret_cast<threadgroup float*>(query_tile + tile_row * STRIDE + at), q);
}

// A simdgroup's rows, and what they see: [my_begin, my_end).
const int my_first = first_item + int(simdgroup * 8);
const int my_end = my_first < items ? history + (min(my_first + 8, items) - 1) / GROUP + 1 : 0;
#if WINDOW
const int my_begin = max(0, history + my_first / GROUP + 1 - window);
#else
const int my_begin = 0;
#endif
// Four lanes a row: lane `part` of them has keys part, part + 4, …
const uint row = lane / 4, part = lane % 4;
const int item = min(my_first + int(row), items - 1);
const int position = history + item / GROUP;
#if WINDOW
const int first_seen = position + 1 - window;
#else
const int first_seen = 0;
#endif

threadgroup float* mine = scratch + simdgroup * 8 * WIDE;
threadgroup T* weights = reinterpret_cast<threadgroup T*>(mine);
threadgroup float* diagonal = diagonals + simdgroup * 64;

matrix8x8<float> sum[HEAD_DIM / 8];
#pragma unroll
for (uint d = 0; d < HEAD_DIM / 8; ++d) matrix_fill(sum[d], 0.0f);
float maximum = LOWEST, total = 0.0f;

vec4 k_rows[VECTORS], v_rows[VECTORS];  // of a block of keys, on their way
#if AHEAD
LOAD_BLOCK(lowest / KEYS * KEYS)
#endif
for (int begin = lowest / KEYS * KEYS; begin < end; begin += KEYS) {
#if !AHEAD
  LOAD_BLOCK(begin)
#endif
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (uint i = 0; i < VECTORS; ++i) {
    const uint piece = index + i * (SIMDGROUPS * 32);
    const uint at = piece / PIECES * STRIDE + piece % PIECES * EACH;
    if (piece < KEYS * PIECES) {
      store4(reinterpret_cast<threadgroup float*>(key_tile + at), k_rows[i]);
      store4(reinterpret_cast<threadgroup float*>(value_tile + at), v_rows[i]);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
#if AHEAD
  LOAD_BLOCK(begin + KEYS)
  simdgroup_barrier(mem_flags::mem_none);
#endif
  if (begin >= my_end || begin + KEYS <= my_begin) continue;  // the same for the whole simdgroup

  matrix8x8<float> score[KEYS / 8];
#pragma unroll
  for (uint k = 0; k < KEYS / 8; ++k) matrix_fill(score[k], 0.0f);
#pragma unroll
  for (uint d = 0; d < HEAD_DIM / 8; ++d) {
    matrix8x8<T> left, right;
    matrix_load(left, query_tile + simdgroup * 8 * STRIDE + d * 8, STRIDE);
#pragma unroll
    for (uint k = 0; k < KEYS / 8; ++k) {
      matrix_load_transposed(right, key_tile + k * 8 * STRIDE + d * 8, STRIDE);
      matrix_multiply_accumulate(score[k], left, right);
    }
  }
#pragma unroll
  for (uint k = 0; k < KEYS / 8; ++k) matrix_store(score[k], mine + k * 8, WIDE);
  simdgroup_barrier(mem_flags::mem_threadgroup);

  float logit[KEYS / 4];
  float top = MASKED;
#pragma unroll
  for (uint i = 0; i < KEYS / 4; ++i) {
    const int key = begin + int(part + 4 * i);
    float s = mine[row * WIDE + part + 4 * i] * SCALE;
#ifdef SOFTCAP
    s = SOFTCAP * tanh(s * PER_SOFTCAP);
#endif
    logit[i] = key <= position && key >= first_seen ? s : MASKED;
    top = max(top, logit[i]);
  }
  top = max(top, simd_shuffle_xor(top, 1));
  top = max(top, simd_shuffle_xor(top, 2));
  const float best = top > maximum + SLACK ? top : maximum;
  const float factor = exp2(maximum - best);
  maximum = best;
  total *= factor;
  simdgroup_barrier(mem_flags::mem_threadgroup);  // weights take the place of the scores
#pragma unroll
  for (uint i = 0; i < KEYS / 4; ++i) {
    const float weight = exp2(logit[i] - best);
    total += weight;
    weights[row * WIDE + part + 4 * i] = from_float<T>(weight);
  }
  if (simd_max(factor < 1.0f ? 1.0f : 0.0f) > 0.0f) {
    diagonal[row * 8 + part * 2] = row == part * 2 ? factor : 0.0f;
    diagonal[row * 8 + part * 2 + 1] = row == part * 2 + 1 ? factor : 0.0f;
    simdgroup_barrier(mem_flags::mem_threadgroup);
    matrix8x8<float> by;
    matrix_load(by, diagonal, 8);
#pragma unroll
    for (uint d = 0; d < HEAD_DIM / 8; ++d) {
      matrix8x8<float> scaled;
      matrix_fill(scaled, 0.0f);
      matrix_multiply_accumulate(scaled, by, sum[d]);
      sum[d] = scaled;
    }
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);

#pragma unroll
  for (uint k = 0; k < KEYS / 8; ++k) {
    matrix8x8<T> left, right;
    matrix_load(left, weights + k * 8, WIDE);
#pragma unroll
    for (uint d = 0; d < HEAD_DIM / 8; ++d) {
      matrix_load(right, value_tile + k * 8 * STRIDE + d * 8, STRIDE);
      matrix_multiply_accumulate(sum[d], left, right);
    }
  }
}

total += simd_shuffle_xor(total, 1);
total += simd_shuffle_xor(total, 2);
const uint head = kv_head * GROUP + uint(item) % GROUP;
const size_t out_row = size_t(first_row + item / GROUP) * (GROUP * KV_HEADS) + head;
#if SPLIT
const size_t place = out_row * parts + my_part;
const float by = 1.0f;
if (my_first + int(row) < items && part < 2) sums[place * 2 + part] = part == 0 ? maximum : total;
if (lowest >= end) return;  // the same for the whole threadgroup
#else
const size_t place = out_row;
#if SINKS
total += exp2(to_float(sinks[head]) * 1.44269504f - maximum);
#endif
const float by = 1.0f / total;
#endif
#pragma unroll
for (uint d = 0; d < HEAD_DIM / 16; ++d) {
  simdgroup_barrier(mem_flags::mem_threadgroup);
  matrix_store(sum[2 * d], mine, WIDE);
  matrix_store(sum[2 * d + 1], mine + 8, WIDE);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  if (my_first + int(row) < items)
    store4(out + place * HEAD_DIM + d * 16 + part * 4, load4(mine + row * WIDE + part * 4) * by);
}
