// What matrix-vector kernels share: sums over a simdgroup's lanes, and what follows them.
//
// Features: NORM, BIAS, RESIDUAL and SPLIT as in matvec.metal; GATED of activation.h.

helper vec8 product8(vec8 a, vec8 b) { return {a.lo * b.lo, a.hi * b.hi}; }

helper float fma4(vec4 a, vec4 b, float sum) {
  return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

// Adds the products of a's and b's first halves to `low`, of their second halves to `high`; these may be one number.
helper void add_products(vec8 a, vec8 b, thread float& low, thread float& high) {
  low = fma4(a.lo, b.lo, low);
  high = fma4(a.hi, b.hi, high);
}

// Byte i of a word, at bits 15 to 22: the upper bits of a float's mantissa.
helper uint byte_at_15(uint word, uint i) { return i < 2 ? word << (15 - 8 * i) : word >> (8 * i - 15); }

// Sums COUNT numbers (a power of two, to 32) over the lanes, in COUNT - 1 + log2(32 / COUNT) shuffles. Each lane gets one
// sum: lane l that of number l / (32 / COUNT).
template <uint COUNT>
helper float scatter_sum(thread float* part, uint lane) {
  uint count = COUNT;
#pragma unroll
  for (uint mask = 16; mask > 0; mask /= 2) {
    count /= 2;
    if (count > 0) {
      const bool is_upper = (lane & mask) != 0;
#pragma unroll
      for (uint i = 0; i < (COUNT + 1) / 2; ++i)
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

// What a lane holds of one number of the answer; `up` and `squares` only where the features ask for them.
struct matvec_sums {
  float value, up, squares;
};

// Sums of a simdgroup. `parts` are (GATED ? 2 : 1) × COUNT numbers; number i belongs to row i / OUTPUTS of x, and to
// that row's squares.
template <uint COUNT, uint OUTPUTS, uint M>
helper matvec_sums summed(thread float* parts, thread const float* squares, uint lane) {
  const float value = scatter_sum<COUNT>(parts, lane);
  float up = 0.0f, square = 0.0f;
#if GATED
  up = scatter_sum<COUNT>(parts + COUNT, lane);
#endif
#if NORM
  float spread[COUNT];
#pragma unroll
  for (uint i = 0; i < COUNT; ++i) spread[i] = i / OUTPUTS < M ? squares[i / OUTPUTS] : 0.0f;
  square = scatter_sum<COUNT>(spread, lane);
#endif
  return {value, up, square};
}

#if SPLIT > 1
// The sums of SPLIT simdgroups that follow each other; `partial` holds three numbers for each thread.
helper void store_sums(threadgroup float* partial, uint thread_index, thread const matvec_sums& sums) {
  partial[thread_index * 3] = sums.value;
  partial[thread_index * 3 + 1] = sums.up;
  partial[thread_index * 3 + 2] = sums.squares;
}
helper matvec_sums load_sums(const threadgroup float* partial, uint thread_index) {
  float value = 0.0f, up = 0.0f, squares = 0.0f;
#pragma unroll
  for (uint i = 0; i < SPLIT; ++i) {
    const uint at = (thread_index + i * 32) * 3;
    value += partial[at];
    up += partial[at + 1];
    squares += partial[at + 2];
  }
  return {value, up, squares};
}
#endif
