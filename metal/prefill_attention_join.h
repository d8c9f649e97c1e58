// Of prefill_attention.metal: what the simdgroups of a threadgroup found for the same rows goes to the first of them.
//
// In each round the latter half hand on what they have, each lane to that lane of another: their matrices lie alike.
#define HANDED ((TILES + TILES * COLUMNS) * 64)
threadgroup float* const handed = reinterpret_cast<threadgroup float*>(tiles);
for (uint left = SIMDGROUPS; left > 1; left = (left + 1) / 2) {
  const uint kept = (left + 1) / 2;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simdgroup >= kept && simdgroup < left) {
    threadgroup float* const at = handed + (simdgroup - kept) * HANDED + lane;
#pragma unroll
    for (uint r = 0; r < TILES; ++r) {
      at[r * 64] = maximum[r];
      at[r * 64 + 32] = total[r];
    }
#pragma unroll
    for (uint m = 0; m < TILES * COLUMNS; ++m)
#pragma unroll
      for (uint i = 0; i < 2; ++i) at[(TILES + m) * 64 + i * 32] = matrix_get(sum[m], i);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simdgroup < left - kept) {
    threadgroup float* const at = handed + simdgroup * HANDED + lane;
#pragma unroll
    for (uint r = 0; r < TILES; ++r) {
      const float top = max(maximum[r], at[r * 64]);
      const float mine = exp2((maximum[r] - top) * UNIT), other = exp2((at[r * 64] - top) * UNIT);
      maximum[r] = top;
      total[r] = total[r] * mine + at[r * 64 + 32] * other;
#pragma unroll
      for (uint m = r * COLUMNS; m < (r + 1) * COLUMNS; ++m)
#pragma unroll
        for (uint i = 0; i < 2; ++i) matrix_set(sum[m], i, matrix_get(sum[m], i) * mine + at[(TILES + m) * 64 + i * 32] * other);
    }
  }
}
