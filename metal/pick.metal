// The likeliest token of each row of logits (rows, N), the lowest among equals, and log Σ exp(logits), which is not finite
// exactly when the row makes no distribution.
//
// One threadgroup a row. Each thread runs an online log-sum-exp (Milakov and Gimelshein 2018, arXiv:1805.02867) over its
// share, PIECES loads of WIDTH logits at a time; lanes and then simdgroups join theirs.
#define LOWEST -3.0e38f
#define MINUS_INFINITY as_float(0xff800000u)
#define PIECES 4
#define SPAN (SIMDGROUPS * 32 * WIDTH)

struct best_so_far {
  float value, sum;  // the largest, and Σ exp(v - value)
  uint at;
};

helper best_so_far joined(best_so_far a, best_so_far b) {
  const bool is_b = b.value > a.value || (b.value == a.value && b.at < a.at);
  const float top = is_b ? b.value : a.value;
  return {top, a.sum * exp(a.value - top) + b.sum * exp(b.value - top), is_b ? b.at : a.at};
}

helper best_so_far joined_lanes(best_so_far mine) {
#pragma unroll
  for (uint mask = 16; mask > 0; mask /= 2)
    mine = joined(mine, {simd_shuffle_xor(mine.value, mask), simd_shuffle_xor(mine.sum, mask), simd_shuffle_xor(mine.at, mask)});
  return mine;
}

#pragma body
threadgroup_array(float, values, SIMDGROUPS);
threadgroup_array(float, totals, SIMDGROUPS);
threadgroup_array(uint, places, SIMDGROUPS);

const uint row = threadgroup_position_in_grid.x;
const uint index = thread_index_in_threadgroup;
const device float* all = logits + size_t(row) * N;

best_so_far mine = {LOWEST, 0.0f, N};
for (uint first = 0; first < N; first += PIECES * SPAN) {
  // All of a thread's loads are under way before the first is waited for; beyond the row there is no mass.
  float v[PIECES * WIDTH];
#pragma unroll
  for (uint piece = 0; piece < PIECES; ++piece) {
    const uint at = first + piece * SPAN + index * WIDTH;
#if WIDTH == 4
    const vec4 four = at < N ? load4(all + at) : make_vec4(MINUS_INFINITY);
    v[piece * 4] = four.x;
    v[piece * 4 + 1] = four.y;
    v[piece * 4 + 2] = four.z;
    v[piece * 4 + 3] = four.w;
#else
    v[piece] = at < N ? all[at] : MINUS_INFINITY;
#endif
  }
  simdgroup_barrier(mem_flags::mem_none);
  best_so_far next = {LOWEST, 0.0f, N};
#pragma unroll
  for (uint i = 0; i < PIECES * WIDTH; ++i) {
    if (v[i] > next.value) next.at = first + (i / WIDTH) * SPAN + index * WIDTH + i % WIDTH;
    next.value = max(next.value, v[i]);
  }
#pragma unroll
  for (uint i = 0; i < PIECES * WIDTH; ++i) next.sum += exp(v[i] - next.value);
  mine = joined(mine, next);
}
mine = joined_lanes(mine);
if (thread_index_in_simdgroup == 0) {
  values[simdgroup_index_in_threadgroup] = mine.value;
  totals[simdgroup_index_in_threadgroup] = mine.sum;
  places[simdgroup_index_in_threadgroup] = mine.at;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
if (simdgroup_index_in_threadgroup == 0) {
  const uint lane = thread_index_in_simdgroup;
  const bool is_one = lane < SIMDGROUPS;
  mine = joined_lanes({is_one ? values[lane] : LOWEST, is_one ? totals[lane] : 0.0f, is_one ? places[lane] : N});
  if (lane == 0) {
    token[row] = min(mine.at, uint(N - 1));
    mass[row] = mine.value + log(mine.sum);
  }
}
