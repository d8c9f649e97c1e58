// Joins the partitions of decode_attention or prefill_attention: out = Σ_p 2^(m_p − m) o_p / Σ_p 2^(m_p − m) l_p, with m = max m_p.
//
// `partial` has the o_p of all rows, and behind these (m_p, l_p) of all. One threadgroup a query row. Simdgroups share the
// partitions out among themselves, and load AHEAD of theirs before they add the first; a lane holds 4 elements of a head (VECTORS
// times). Partitions that no key of the sequence lies in were never written and do not count: decode attention's are found by the
// sequence's length, and of prefill's (RAGGED) all have a sum, which is 0 then.
#define AHEAD 4

#pragma body
threadgroup_array(float, joined, SIMDGROUPS * HEAD_DIM);
threadgroup_array(float, shares, SIMDGROUPS * 2);

const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint row = threadgroup_position_in_grid.x;
const uint partitions = uint(sizes[0]);
const device float* sums = partial + size_t(threadgroups_per_grid.x) * partitions * HEAD_DIM;
#if RAGGED
const bool is_used = int(row / HEADS) < sequences[3];
const uint first = 0, last = partitions - 1;
#else
const uint sequence = row / HEADS / TOKENS;
const int history = lengths[sequence];
if (history < 0) return;
const uint last = uint(history + TOKENS - 1) / PARTITION;
#if WINDOW
const uint first = uint(max(0, history + 1 - sizes[1])) / PARTITION;
#else
const uint first = 0;
#endif
#endif

vec4 value[VECTORS];
#pragma unroll
for (uint i = 0; i < VECTORS; ++i) value[i] = make_vec4(0.0f);
float maximum = -1.0e30f, total = 0.0f;
for (uint next = first + simdgroup; next <= last; next += AHEAD * SIMDGROUPS) {
  float tops[AHEAD], totals[AHEAD];
  vec4 found[AHEAD * VECTORS];
#pragma unroll
  for (uint a = 0; a < AHEAD; ++a) {
    const size_t place = size_t(row) * partitions + (next + a * SIMDGROUPS < last ? next + a * SIMDGROUPS : last);
    tops[a] = sums[place * 2];
    totals[a] = sums[place * 2 + 1];
#pragma unroll
    for (uint i = 0; i < VECTORS; ++i) {
      const uint at = (i * 32 + lane) * 4;
      found[a * VECTORS + i] = load4(partial + place * HEAD_DIM + (at < HEAD_DIM ? at : 0));
    }
  }
  simdgroup_barrier(mem_flags::mem_none);
#pragma unroll
  for (uint a = 0; a < AHEAD; ++a) {
    if (next + a * SIMDGROUPS > last) continue;
#if RAGGED
    if (totals[a] == 0.0f) continue;
#endif
    const float best = max(maximum, tops[a]);
    const float factor = exp2(maximum - best), weight = exp2(tops[a] - best);
    maximum = best;
    total = total * factor + totals[a] * weight;
#pragma unroll
    for (uint i = 0; i < VECTORS; ++i) value[i] = value[i] * factor + found[a * VECTORS + i] * weight;
  }
}
if (lane == 0) {
  shares[simdgroup * 2] = maximum;
  shares[simdgroup * 2 + 1] = total;
}
#pragma unroll
for (uint i = 0; i < VECTORS; ++i) {
  const uint at = (i * 32 + lane) * 4;
  if (at < HEAD_DIM) store4(joined + simdgroup * HEAD_DIM + at, value[i]);
}
threadgroup_barrier(mem_flags::mem_threadgroup);

const uint element = thread_index_in_threadgroup * 4;
#if RAGGED
if (!is_used) return;
#endif
if (element < HEAD_DIM) {
  float best = -1.0e30f, all = 0.0f;
  for (uint other = 0; other < SIMDGROUPS; ++other) best = max(best, shares[other * 2]);
  vec4 sum = make_vec4(0.0f);
  for (uint other = 0; other < SIMDGROUPS; ++other) {
    const float weight = exp2(shares[other * 2] - best);
    all += shares[other * 2 + 1] * weight;
    sum += load4(joined + other * HEAD_DIM + element) * weight;
  }
#if SINKS
  all += exp2(to_float(sinks[row % HEADS]) * 1.44269504f - best);
#endif
  store4(out + size_t(row) * HEAD_DIM + element, sum * (1.0f / all));
}
