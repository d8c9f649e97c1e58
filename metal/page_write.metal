// Projections to pages: a row's keys, rotated, and its values go to its slot of the pools; its queries, rotated, to `queries`.
//
// A threadgroup takes heads of one row: TEAM lanes hold a head, 8 elements each. ITEMS heads of a row are done, the ones from
// FIRST on (the keys' first head, unless QUERIES). A row whose slot is -1 writes no page. With CHUNK, keys and values also go
// to `new_keys` and `new_values`, the rows side by side: what a prompt without history attends to.
#include "rope.h"

#pragma body
const uint lane = thread_index_in_simdgroup;
const uint row = threadgroup_position_in_grid.x;
const uint rows = threadgroups_per_grid.x;
const uint item = (threadgroup_position_in_grid.y * SIMDGROUPS + simdgroup_index_in_threadgroup) * (32 / TEAM) + lane / TEAM;
const uint at = lane % TEAM * 8;

#if CHUNK || !QUERIES
if (row == 0 && threadgroup_position_in_grid.y == 0 && thread_index_in_threadgroup < 8)
  next_fence[thread_index_in_threadgroup] = from_float<T>(0.0f);
#endif

const bool is_active = item < ITEMS && at < HEAD_DIM;
const uint head = FIRST + min(item, uint(ITEMS - 1));
const bool is_query = head < HEADS;
const bool is_value = head >= HEADS + KV_HEADS;
const device T* source = qkv + size_t(row) * QKV_WIDTH + head * HEAD_DIM;

#if HEAD_NORM
float squares = is_active ? squared8(load8(source + at)) : 0.0f;
#pragma unroll
for (uint mask = TEAM / 2; mask > 0; mask /= 2) squares += simd_shuffle_xor(squares, mask);
const float inverse = rsqrt(squares / float(HEAD_DIM) + EPSILON);
#endif

if (is_active) {
  vec8 x;
  if (is_value) {
    x = load8(source + at);
  } else {
#if HEAD_NORM
    x = rotated8<ROTARY>(source, angles + size_t(row) * ROTARY, at, is_query ? q_norm : k_norm, inverse);
#else
    x = rotated8<ROTARY>(source, angles + size_t(row) * ROTARY, at);
#endif
  }
#if QUERIES
  if (is_query) store8(queries + (size_t(head) * rows + row) * HEAD_DIM + at, x);
#endif
  if (!is_query) {
    const uint kv_head = (head - HEADS) % KV_HEADS;
    const int slot = slots[row];
    if (slot >= 0) {
      const size_t place = (size_t(kv_head) * uint(pool[0]) + uint(slot)) * HEAD_DIM + at;
      if (is_value) store8(writable(values) + place, x);
      else store8(writable(keys) + place, x);
    }
#if CHUNK
    const size_t beside = (size_t(kv_head) * rows + row) * HEAD_DIM + at;
    if (is_value) store8(new_values + beside, x);
    else store8(new_keys + beside, x);
#endif
  }
}
