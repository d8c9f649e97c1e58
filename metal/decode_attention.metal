// Decode attention over pages: 1 to 8 new tokens a sequence attend to all before them, and are written to their pages.
//
// A threadgroup takes one key/value head (and up to ROWS of its query rows: heads of the group × new tokens), one
// sequence, and one partition of PARTITION keys. It rotates its queries, walks the partition's keys in blocks of
// KEYS that lie in one page, and adds the new tokens' own keys where the partition holds them; the threadgroup of the
// first rows writes those to the pool. No threadgroup reads what another writes: new keys are rotated anew by each.
//
// TEAM lanes hold a key together, 8 elements each, so that K and V are read once for all rows of the group; the
// row sums are scattered over the team's lanes, which then do one row's softmax each (exp2, in float).
// Each team runs its own softmax; they are merged at the end: first within a simdgroup, then between simdgroups.
//
// What a short chat costs is one wait after the other. So all loads that wait for nothing but the page table come first:
// a block's keys and values together, the first block's before the queries are made.
//
// FINAL: the only partition, so `out` is the answer. Otherwise out is (rows, partitions, HEAD_DIM), not yet divided, with
// (maximum, sum) per row and partition behind it, for attention_reduce.
#include "rope.h"

#define MASKED -1.0e38f
#define LOWEST -1.0e30f

helper vec8 zero8() { return {make_vec4(0.0f), make_vec4(0.0f)}; }
helper float dot8(vec8 a, vec8 b) { return dot(a.lo, b.lo) + dot(a.hi, b.hi); }
helper vec8 add_scaled8(vec8 sum, vec8 v, float by) { return {sum.lo + v.lo * by, sum.hi + v.hi * by}; }
template <typename T>
helper vec4 rounded4(vec4 v) {
  return make_vec4(to_float(from_float<T>(v.x)), to_float(from_float<T>(v.y)), to_float(from_float<T>(v.z)),
                   to_float(from_float<T>(v.w)));
}

helper vec8 shuffled8(vec8 v, uint mask) {
  return {make_vec4(simd_shuffle_xor(v.lo.x, mask), simd_shuffle_xor(v.lo.y, mask), simd_shuffle_xor(v.lo.z, mask),
                    simd_shuffle_xor(v.lo.w, mask)),
          make_vec4(simd_shuffle_xor(v.hi.x, mask), simd_shuffle_xor(v.hi.y, mask), simd_shuffle_xor(v.hi.z, mask),
                    simd_shuffle_xor(v.hi.w, mask))};
}

// Where a team's block of keys lies, [begin, end) of them visible. Past either end a neighbour that is visible stands in for
// a key that is not (its weight will be zero): what lies in slots that nobody wrote may be anything.
struct key_block {
  size_t place;  // of the block's first key, in elements of the pool
  int first, last;  // keys of the block that may be read
};

template <uint KEYS, uint HEAD_DIM, typename T>
helper void load_block(thread packet<T>* rows, const device T* pool, key_block block) {
#pragma unroll
  for (int i = 0; i < int(KEYS); ++i)
    rows[i] = load_packet(pool + block.place + min(max(i, block.first), block.last) * int(HEAD_DIM));
}

// Sums `part` over a team's lanes; lane l of the team gets row l / (TEAM / ROWS).
template <uint ROWS, uint TEAM>
helper float scatter_sum(thread float* part, uint lane) {
  uint count = ROWS;
#pragma unroll
  for (uint mask = TEAM / 2; mask > 0; mask /= 2) {
    const bool is_upper = (lane & mask) != 0;
    if (count > 1) {
      count /= 2;
#pragma unroll
      for (uint i = 0; i < ROWS / 2; ++i)
        if (i < count) {
          const float other = is_upper ? part[i] : part[i + count];
          const float mine = is_upper ? part[i + count] : part[i];
          part[i] = mine + simd_shuffle_xor(other, mask);
        }
    } else {
      part[0] += simd_shuffle_xor(part[0], mask);
    }
  }
  return part[0];
}

#pragma body
threadgroup_array(float, queries, ROWS * HEAD_DIM);
threadgroup_array(float, merged, MERGED * ROWS * HEAD_DIM);
threadgroup_array(float, maxima, SIMDGROUPS * ROWS);
threadgroup_array(float, totals, SIMDGROUPS * ROWS);

const uint index = thread_index_in_threadgroup;
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint chunk = threadgroup_position_in_grid.x % CHUNKS;
const uint kv_head = threadgroup_position_in_grid.x / CHUNKS;
const uint sequence = threadgroup_position_in_grid.y;
const uint partition = threadgroup_position_in_grid.z;
const uint partitions = threadgroups_per_grid.z;
const uint slots = uint(pool[0]);

const int history = lengths[sequence];
const int begin = int(partition * PARTITION);
const int end = min(history, begin + PARTITION);
#if WINDOW
const int window = sizes[0];
const int lowest = max(0, history + 1 - window);
#else
const int lowest = 0;
#endif
if (history < 0 || begin >= history + TOKENS || begin + PARTITION <= lowest) return;

const uint member = lane % TEAM;
const uint in_simdgroup = lane / TEAM;  // which team
const uint team = simdgroup * (32 / TEAM) + in_simdgroup;
const bool is_active = member * 8 < HEAD_DIM;
const uint at = is_active ? member * 8 : 0;
const uint my_row = member / (TEAM / ROWS);
const uint base = lane - member;  // the team's first lane
const int my_token = int(min(chunk * ROWS + my_row, uint(GROUP * TOKENS - 1)) / GROUP);
#if WINDOW
const int my_lowest = max(0, history + my_token + 1 - window);
#else
const int my_lowest = 0;
#endif
const device int* table = tables + sequence * (partitions * (PARTITION / PAGE));

#define FIRST_KEY(round) (begin + int(((round) * TEAMS + simdgroup * (32 / TEAM)) * KEYS))
#define IS_ROUND(round) ((round) * TEAMS * KEYS < PARTITION && FIRST_KEY(round) < end)
#define LOAD_ROUND(round, key_rows, value_rows)                                                                       \
  {                                                                                                                   \
    const int nearest = min(max(FIRST_KEY(round) + int(in_simdgroup * KEYS), lowest / KEYS * KEYS), (end - 1) / KEYS * KEYS); \
    const key_block block = {                                                                                         \
        (size_t(kv_head) * slots + uint(table[nearest / PAGE]) * PAGE + uint(nearest % PAGE)) * HEAD_DIM + at,        \
        max(lowest - nearest, 0), min(end - 1 - nearest, KEYS - 1)};                                                  \
    load_block<KEYS, HEAD_DIM>(key_rows, keys, block);                                                                \
    load_block<KEYS, HEAD_DIM>(value_rows, values, block);                                                            \
  }

// A round is a block for each team. Rounds before the window have nothing to say.
uint round = uint(max(lowest - begin, 0)) / (TEAMS * KEYS);
packet<T> k_rows[KEYS], v_rows[KEYS];
if (IS_ROUND(round)) LOAD_ROUND(round, k_rows, v_rows)

// The new tokens: team j takes token j.
const bool has_new = begin + PARTITION > history && simdgroup * (32 / TEAM) < TOKENS;
const int position = history + int(team);
const bool is_new = has_new && team < TOKENS && position >= begin && position < begin + PARTITION;
const uint new_row = sequence * TOKENS + (is_new ? team : 0);
vec8 new_key = zero8(), new_value = zero8();
if (has_new) {
  const device T* k_head = qkv + size_t(new_row) * QKV_WIDTH + (GROUP * KV_HEADS + kv_head) * HEAD_DIM;
  const device float* turns = angles + size_t(is_new ? position : 0) * ROTARY;
#if HEAD_NORM
  float squares = is_active ? squared8(load8(k_head + at)) : 0.0f;
#pragma unroll
  for (uint mask = TEAM / 2; mask > 0; mask /= 2) squares += simd_shuffle_xor(squares, mask);
  const float inverse = rsqrt(squares / float(HEAD_DIM) + EPSILON);
  new_key = rotated8<ROTARY>(k_head, turns, at, k_norm, inverse);
#else
  new_key = rotated8<ROTARY>(k_head, turns, at);
#endif
  new_key = {rounded4<T>(new_key.lo), rounded4<T>(new_key.hi)};
  new_value = load8(k_head + KV_HEADS * HEAD_DIM + at);
  if (chunk == 0 && is_new && is_active) {
    const size_t place =
        (size_t(kv_head) * slots + uint(table[position / PAGE]) * PAGE + uint(position % PAGE)) * HEAD_DIM + at;
    store8(writable(keys) + place, new_key);
    store8(writable(values) + place, new_value);
  }
}

// Queries: rotated, scaled to base-2 logits, kept in float.
for (uint row = simdgroup; row < ROWS; row += SIMDGROUPS) {
  const uint global = min(chunk * ROWS + row, uint(GROUP * TOKENS - 1));
  const uint token = sequence * TOKENS + global / GROUP;
  const device T* head = qkv + size_t(token) * QKV_WIDTH + (kv_head * GROUP + global % GROUP) * HEAD_DIM;
  const device float* turns = angles + size_t(uint(history) + global / GROUP) * ROTARY;
  const uint element = lane * 8;
#if HEAD_NORM
  const float squares = simd_sum(element < HEAD_DIM ? squared8(load8(head + element)) : 0.0f);
  const float inverse = rsqrt(squares / float(HEAD_DIM) + EPSILON);
#endif
  if (element < HEAD_DIM) {
#if HEAD_NORM
    vec8 q = rotated8<ROTARY>(head, turns, element, q_norm, inverse);
#else
    vec8 q = rotated8<ROTARY>(head, turns, element);
#endif
    store8(queries + row * HEAD_DIM + element, scaled8(q, SCALE));
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);

vec8 q[ROWS], sum[ROWS];
#pragma unroll
for (uint row = 0; row < ROWS; ++row) {
  q[row] = is_active ? load8(queries + row * HEAD_DIM + at) : zero8();
  sum[row] = zero8();
}
float maximum = LOWEST, total = 0.0f;

for (; IS_ROUND(round); ++round) {
#if AHEAD
  // The next block is on its way while this one is computed.
  packet<T> k_next[KEYS], v_next[KEYS];
  if (IS_ROUND(round + 1)) LOAD_ROUND(round + 1, k_next, v_next)
  simdgroup_barrier(mem_flags::mem_none);
#endif
  const int key = FIRST_KEY(round) + int(in_simdgroup * KEYS);
  float score[KEYS];
  float best = maximum;
#pragma unroll
  for (int i = 0; i < KEYS; ++i) {
    const vec8 k = unpack8(k_rows[i]);
    float part[ROWS];
#pragma unroll
    for (uint row = 0; row < ROWS; ++row) part[row] = dot8(q[row], k);
    float s = scatter_sum<ROWS, TEAM>(part, lane);
#ifdef SOFTCAP
    s = SOFTCAP * tanh(s * PER_SOFTCAP);
#endif
    score[i] = key + i < end && key + i >= my_lowest ? s : MASKED;
    best = max(best, score[i]);
  }
  const float factor = exp2(maximum - best);
  maximum = best;
  total *= factor;
#pragma unroll
  for (uint row = 0; row < ROWS; ++row)
    sum[row] = scaled8(sum[row], simd_shuffle(factor, base + row * (TEAM / ROWS)));
#pragma unroll
  for (int i = 0; i < KEYS; ++i) {
    const float weight = exp2(score[i] - best);
    total += weight;
    const vec8 v = unpack8(v_rows[i]);
#pragma unroll
    for (uint row = 0; row < ROWS; ++row)
      sum[row] = add_scaled8(sum[row], v, simd_shuffle(weight, base + row * (TEAM / ROWS)));
  }
#if AHEAD
  if (IS_ROUND(round + 1)) {
#pragma unroll
    for (int i = 0; i < KEYS; ++i) {
      k_rows[i] = k_next[i];
      v_rows[i] = v_next[i];
    }
  }
#else
  if (IS_ROUND(round + 1)) LOAD_ROUND(round + 1, k_rows, v_rows)
#endif
}

if (has_new) {
  float part[ROWS];
#pragma unroll
  for (uint row = 0; row < ROWS; ++row) part[row] = dot8(q[row], new_key);
  float s = scatter_sum<ROWS, TEAM>(part, lane);
#ifdef SOFTCAP
  s = SOFTCAP * tanh(s * PER_SOFTCAP);
#endif
  if (!is_new || position < my_lowest || int(team) > my_token) s = MASKED;
  const float best = max(maximum, s);
  const float factor = exp2(maximum - best), weight = exp2(s - best);
  maximum = best;
  total = total * factor + weight;
#pragma unroll
  for (uint row = 0; row < ROWS; ++row) {
    const float by = simd_shuffle(factor, base + row * (TEAM / ROWS));
    sum[row] = add_scaled8(scaled8(sum[row], by), new_value, simd_shuffle(weight, base + row * (TEAM / ROWS)));
  }
}

// Teams of a simdgroup: all learn the common maximum, then deal the rows out among themselves.
float best_of_all = maximum;
#pragma unroll
for (uint mask = TEAM; mask < 32; mask *= 2) best_of_all = max(best_of_all, simd_shuffle_xor(best_of_all, mask));
const float team_factor = exp2(maximum - best_of_all);
total *= team_factor;
#pragma unroll
for (uint mask = TEAM; mask < 32; mask *= 2) total += simd_shuffle_xor(total, mask);
#pragma unroll
for (uint row = 0; row < ROWS; ++row)
  sum[row] = scaled8(sum[row], simd_shuffle(team_factor, base + row * (TEAM / ROWS)));
uint held = ROWS, first_row = 0;
bool is_owner = is_active;
#pragma unroll
for (uint mask = TEAM; mask < 32; mask *= 2) {
  const bool is_upper = (lane & mask) != 0;
  if (held > 1) {
    held /= 2;
    if (is_upper) first_row += held;
#pragma unroll
    for (uint i = 0; i < ROWS / 2; ++i)
      if (i < held) {
        const vec8 other = is_upper ? sum[i] : sum[i + held];
        const vec8 mine = is_upper ? sum[i + held] : sum[i];
        sum[i] = add_scaled8(mine, shuffled8(other, mask), 1.0f);
      }
  } else {
    sum[0] = add_scaled8(sum[0], shuffled8(sum[0], mask), 1.0f);
    if (is_upper) is_owner = false;
  }
}

// Simdgroups: MERGED of them at a time (a divisor of SIMDGROUPS) leave their sums, and every thread adds up its elements of the answer.
if (lane < TEAM && member % (TEAM / ROWS) == 0) {
  maxima[simdgroup * ROWS + my_row] = best_of_all;
  totals[simdgroup * ROWS + my_row] = total;
}
vec4 answer[PLACES];
#pragma unroll
for (uint i = 0; i < PLACES; ++i) answer[i] = make_vec4(0.0f);
float shared_best[PLACES], all[PLACES];
#pragma unroll
for (uint turn = 0; turn < SIMDGROUPS; turn += MERGED) {
  if (turn > 0) threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simdgroup >= turn && simdgroup < turn + MERGED && is_owner) {
#pragma unroll
    for (uint i = 0; i < ROWS; ++i)
      if (i < held) store8(merged + ((simdgroup - turn) * ROWS + first_row + i) * HEAD_DIM + at, sum[i]);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (uint i = 0; i < PLACES; ++i) {
    const uint place = (i * SIMDGROUPS * 32 + index) * 4;
    if (place < ROWS * HEAD_DIM) {
      const uint row = place / HEAD_DIM;
      if (turn == 0) {
        shared_best[i] = LOWEST;
        all[i] = 0.0f;
#pragma unroll
        for (uint other = 0; other < SIMDGROUPS; ++other) shared_best[i] = max(shared_best[i], maxima[other * ROWS + row]);
#pragma unroll
        for (uint other = 0; other < SIMDGROUPS; ++other)
          all[i] += totals[other * ROWS + row] * exp2(maxima[other * ROWS + row] - shared_best[i]);
      }
#pragma unroll
      for (uint other = 0; other < MERGED; ++other)
        answer[i] += load4(merged + other * ROWS * HEAD_DIM + place) * exp2(maxima[(turn + other) * ROWS + row] - shared_best[i]);
    }
  }
}

#pragma unroll
for (uint i = 0; i < PLACES; ++i) {
  const uint place = (i * SIMDGROUPS * 32 + index) * 4;
  const uint row = place / HEAD_DIM, element = place % HEAD_DIM, global = chunk * ROWS + row;
  if (row < ROWS && global < GROUP * TOKENS) {
    const uint head = kv_head * GROUP + global % GROUP;
    const size_t out_row = size_t(sequence * TOKENS + global / GROUP) * (GROUP * KV_HEADS) + head;
#if FINAL
#if SINKS
    all[i] += exp2(to_float(sinks[head]) * 1.44269504f - shared_best[i]);
#endif
    store4(out + out_row * HEAD_DIM + element, answer[i] * (1.0f / all[i]));
#else
    store4(out + (out_row * partitions + partition) * HEAD_DIM + element, answer[i]);
    if (element == 0) {
      const size_t rows = size_t(threadgroups_per_grid.y * TOKENS) * (GROUP * KV_HEADS);
      device float* sums = out + rows * partitions * HEAD_DIM + (out_row * partitions + partition) * 2;
      sums[0] = shared_best[i];
      sums[1] = all[i];
    }
#endif
  }
}
