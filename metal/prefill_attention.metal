// Prefill attention over pages: many new tokens a sequence, which are in pages already, attend to all up to themselves.
//
// A threadgroup takes one key/value head of one sequence and 8 · TILES · SIMDGROUPS of its query rows: heads of the group × new
// tokens, token after token, so that all heads of a group share what is read. It walks the keys that these rows see, KEYS at a
// time, from pages to threadgroup memory, while the next ones are on their way to registers. Each simdgroup holds 8 · TILES rows
// and their sums (FlashAttention-2, Dao 2023, arXiv:2307.08691). A key outside of what the rows see is a row of zeros there: its
// slot may never have been written.
//
// The softmax is done on matrices where they lie, each row's by the lanes that hold it (exp2, in float). Sums are rescaled only
// when a maximum grew by more than SLACK, for weights up to 2^SLACK are as exact as those up to 1.
//
// `sequences` begins with the slots of a head, pages of a sequence, rows of all queries, rows that are of any, and how many there are.
// Then it says where they lie: of each how many tokens it had before, then the first row of each and the end, then the pages of each.
//
// SPLIT: few rows behind many keys would leave most of a device idle. So several threadgroups walk a part each of the keys of
// the same rows, and `out` is (rows, parts, HEAD_DIM), not yet divided, with (maximum, sum) per row and part behind it, for
// attention_reduce; of a part in which a row sees nothing, only a sum of 0. The parts of a tile are as long as each other, whatever
// its keys are. The grid has heads times parts.
//
// STRIPED: the simdgroups of a threadgroup share 8 · TILES rows, and each walks every SIMDGROUPS-th block of KEYS keys by itself;
// what they found is joined in threadgroup memory. So few rows keep a device busy without a launch more. A block's keys and
// values take the same threadgroup memory one after the other, or fewer simdgroups had room.
#define MASKED -1.0e38f
#define LOWEST -1.0e30f
#define SLACK 8.0f
#define EACH uint(16 / sizeof(T))
#define PIECES (HEAD_DIM / EACH)
#if STRIPED
#define ROWS (8 * TILES)
#define WALKERS SIMDGROUPS
#else
#define ROWS (8 * TILES * SIMDGROUPS)
#define WALKERS 1
#endif
// From a block to the next, and threads that bring one.
#define STEP int(KEYS * WALKERS)
#define LOADERS (SIMDGROUPS * 32 / WALKERS)
#define COLUMNS (HEAD_DIM / 8)
#define BLOCKS (KEYS / 8)
#define JOINED (BLOCKS > 1 ? 2 : 1)
// By which a score becomes a logit to base 2; a cap has made it one.
#ifdef SOFTCAP
#define UNIT 1.0f
#else
#define UNIT SCALE
#endif

#include "prefill_attention.h"

#pragma body
threadgroup_array(T, tiles, TILE_ELEMENTS);

const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint kv_head = threadgroup_position_in_grid.y % KV_HEADS;
#if STRIPED
const uint loader = lane, walker = simdgroup;
threadgroup T* const key_tile = tiles + simdgroup * (KEYS * (KEY_STRIDE > VALUE_STRIDE ? KEY_STRIDE : VALUE_STRIDE));
threadgroup T* const value_tile = key_tile;
#else
const uint loader = thread_index_in_threadgroup, walker = 0;
threadgroup T* const key_tile = tiles;
threadgroup T* const value_tile = tiles + KEYS * KEY_STRIDE;
#endif
#if SPLIT
const uint parts = threadgroups_per_grid.y / KV_HEADS, my_part = threadgroup_position_in_grid.y / KV_HEADS;
#endif
const uint sequence = threadgroup_position_in_grid.z;
const uint slots = uint(sequences[0]), rows = uint(sequences[2]);
const uint count = threadgroups_per_grid.z, own = 5 + sequence, own_table = 6 + 2 * count + sequence * uint(sequences[1]);
const device T* const my_keys = keys + size_t(kv_head) * slots * HEAD_DIM;
const device T* const my_values = values + size_t(kv_head) * slots * HEAD_DIM;

#if !SPLIT
if (threadgroup_position_in_grid.x == 0 && kv_head == 0 && threadgroup_position_in_grid.z == 0 && thread_index_in_threadgroup < 8)
  next_fence[thread_index_in_threadgroup] = from_float<T>(0.0f);
#endif

// The last rows see the most keys: they begin first.
const int first_item = int((threadgroups_per_grid.x - 1 - threadgroup_position_in_grid.x) * ROWS);
const int first_row = sequences[own + count];
const int items = (sequences[own + count + 1] - first_row) * GROUP;
const int history = sequences[own];
if (history < 0 || first_item >= items) return;

#if WINDOW
const int window = SEEN;
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

// A simdgroup's rows, and what they see: [my_begin, my_end), all of them what lies from all_begin to all_end.
#if STRIPED
const int my_first = first_item;
#else
const int my_first = first_item + int(simdgroup * 8 * TILES);
#endif
const int my_last = min(my_first + 8 * TILES, items) - 1;
const int my_end = my_first < items ? history + my_last / GROUP + 1 : 0;
const int all_end = history + my_first / GROUP + 1;
#if WINDOW
const int my_begin = max(0, all_end - window), all_begin = my_end - window;
#else
const int my_begin = 0, all_begin = 0;
#endif

int page[VECTORS];
vec4 k_rows[VECTORS], v_rows[VECTORS];  // of a block of keys, on their way
int begin = lowest / KEYS * KEYS + int(walker) * KEYS;
LOOK_UP(begin)
LOAD_BLOCK(k_rows, my_keys, begin)
LOAD_BLOCK(v_rows, my_values, begin)
LOOK_UP(begin + STEP)

// A lane's rows, one of each tile.
const uint row = matrix_row(lane), column = matrix_column(lane);
int position[TILES];
matrix8x8<T> query[TILES * COLUMNS];
matrix8x8<float> sum[TILES * COLUMNS];
float maximum[TILES], total[TILES];
#pragma unroll
for (uint r = 0; r < TILES; ++r) {
  const int item = min(my_first + int(r * 8 + row), items - 1);
  position[r] = history + item / GROUP;
  maximum[r] = LOWEST;
  total[r] = 0.0f;
  const uint head = kv_head * GROUP + uint(item) % GROUP, at = uint(first_row) + uint(item) / GROUP;
#pragma unroll
  for (uint d = 0; d < COLUMNS; d += KEY_WIDE) {
    if (my_first < items)
      matrix_read_wide<KEY_WIDE>(query + r * COLUMNS + d, queries + (size_t(head) * rows + at) * HEAD_DIM + d * 8, lane);
#pragma unroll
    for (uint i = 0; i < KEY_WIDE; ++i) matrix_fill(sum[r * COLUMNS + d + i], 0.0f);
  }
}

for (; begin < end; begin += STEP) {
#if STRIPED
  simdgroup_barrier(mem_flags::mem_threadgroup);
  STORE_BLOCK(k_rows, key_tile, KEY_STRIDE)
  simdgroup_barrier(mem_flags::mem_threadgroup);
  LOAD_BLOCK(k_rows, my_keys, begin + STEP)
  simdgroup_barrier(mem_flags::mem_none);
#else
  threadgroup_barrier(mem_flags::mem_threadgroup);
  STORE_BLOCK(k_rows, key_tile, KEY_STRIDE)
  STORE_BLOCK(v_rows, value_tile, VALUE_STRIDE)
  threadgroup_barrier(mem_flags::mem_threadgroup);
  LOAD_BLOCK(k_rows, my_keys, begin + STEP)
  LOAD_BLOCK(v_rows, my_values, begin + STEP)
  LOOK_UP(begin + 2 * STEP)
  simdgroup_barrier(mem_flags::mem_none);
#endif
  if (STRIPED || (begin < my_end && begin + KEYS > my_begin)) {  // the same for the whole simdgroup
    matrix8x8<float> score[TILES * BLOCKS];
#pragma unroll
    for (uint i = 0; i < TILES * BLOCKS; ++i) matrix_fill(score[i], 0.0f);
#pragma unroll
    for (uint k = 0; k < BLOCKS; ++k)
#pragma unroll
      for (uint d = 0; d < COLUMNS; d += KEY_WIDE) {
        matrix8x8<T> key[KEY_WIDE];
        matrix_load_wide_transposed<KEY_WIDE>(key, key_tile + k * 8 * KEY_STRIDE + d * 8, KEY_STRIDE);
#pragma unroll
        for (uint i = 0; i < KEY_WIDE; i += 2) multiply<TILES, 2>(score + k, BLOCKS, query + d + i, COLUMNS, key + i, 1);
      }

    const bool is_seen_by_all = begin >= all_begin && begin + KEYS <= all_end;
    float grown = 0.0f, top[TILES];
#pragma unroll
    for (uint r = 0; r < TILES; ++r) {
      top[r] = MASKED;
#pragma unroll
      for (uint k = 0; k < BLOCKS; ++k) {
#pragma unroll
        for (uint i = 0; i < 2; ++i) {
          float s = matrix_get(score[r * BLOCKS + k], i);
#ifdef SOFTCAP
          s = SOFTCAP * tanh(s * (SCALE * PER_SOFTCAP));
#endif
          if (!is_seen_by_all) {
            const int token = begin + int(k * 8 + column + i);
#if WINDOW
            s = token <= position[r] && token > position[r] - window ? s : MASKED;
#else
            s = token <= position[r] ? s : MASKED;
#endif
          }
          matrix_set(score[r * BLOCKS + k], i, s);
        }
        top[r] = max(top[r], max(matrix_get(score[r * BLOCKS + k], 0), matrix_get(score[r * BLOCKS + k], 1)));
      }
      grown = max(grown, top[r] - maximum[r]);
    }
    if (simd_any(grown * UNIT > SLACK)) {
#pragma unroll
      for (uint r = 0; r < TILES; ++r) {
        const float highest = matrix_row_max(max(maximum[r], top[r]));
        const float factor = exp2((maximum[r] - highest) * UNIT);
        maximum[r] = highest;
        total[r] *= factor;
#pragma unroll
        for (uint d = 0; d < COLUMNS; ++d) matrix_scale(sum[r * COLUMNS + d], factor);
      }
    }

    matrix8x8<T> weights[TILES * BLOCKS];
#pragma unroll
    for (uint r = 0; r < TILES; ++r)
#pragma unroll
      for (uint k = 0; k < BLOCKS; ++k) {
#pragma unroll
        for (uint i = 0; i < 2; ++i) {
          const float weight = exp2(fma(matrix_get(score[r * BLOCKS + k], i), UNIT, -maximum[r] * UNIT));
          total[r] += weight;
          matrix_set(score[r * BLOCKS + k], i, weight);
        }
        matrix_narrow(weights[r * BLOCKS + k], score[r * BLOCKS + k]);
      }

#if STRIPED
    simdgroup_barrier(mem_flags::mem_threadgroup);
    STORE_BLOCK(v_rows, value_tile, VALUE_STRIDE)
    simdgroup_barrier(mem_flags::mem_threadgroup);
    LOAD_BLOCK(v_rows, my_values, begin + STEP)
    LOOK_UP(begin + 2 * STEP)
    simdgroup_barrier(mem_flags::mem_none);
#endif
#pragma unroll
    for (uint k = 0; k < BLOCKS; k += JOINED)
#pragma unroll
      for (uint d = 0; d < COLUMNS; d += VALUE_WIDE) {
        matrix8x8<T> value[JOINED * VALUE_WIDE];
#pragma unroll
        for (uint i = 0; i < JOINED; ++i)
          matrix_load_right<VALUE_WIDE>(value + i * VALUE_WIDE, value_tile + (k + i) * 8 * VALUE_STRIDE + d * 8, VALUE_STRIDE);
#pragma unroll
        for (uint i = 0; i < VALUE_WIDE; ++i) multiply<TILES, JOINED>(sum + d + i, COLUMNS, weights + k, BLOCKS, value + i, VALUE_WIDE);
      }
  }
}

#if STRIPED
#include "prefill_attention_join.h"
if (simdgroup > 0) return;
#endif

#pragma unroll
for (uint r = 0; r < TILES; ++r) {
  const int item = my_first + int(r * 8 + row);
  const uint head = kv_head * GROUP + uint(item) % GROUP;
  const size_t out_row = size_t(first_row + item / GROUP) * (GROUP * KV_HEADS) + head;
  float all = matrix_row_sum(total[r]);
#if SPLIT
  const size_t place = out_row * parts + my_part;
  if (item < items && column == 0) {
    device float* sums = out + size_t(rows) * (GROUP * KV_HEADS) * parts * HEAD_DIM + place * 2;
    sums[0] = maximum[r] * UNIT;
    sums[1] = all;
  }
  if (item < items && lowest < end)
#else
  const size_t place = out_row;
#if SINKS
  if (item < items) all += exp2(to_float(sinks[head]) * 1.44269504f - maximum[r] * UNIT);
#endif
#pragma unroll
  for (uint d = 0; d < COLUMNS; ++d) matrix_scale(sum[r * COLUMNS + d], 1.0f / all);
  if (item < items)
#endif
#pragma unroll
    for (uint d = 0; d < COLUMNS; d += VALUE_WIDE) matrix_write_right<VALUE_WIDE>(sum + r * COLUMNS + d, out + place * HEAD_DIM + d * 8, lane);
}
