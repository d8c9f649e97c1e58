// y[m, n] = epilogue(Σ_k weight[n, k] · xn[m, k]) for M rows of x (M, K), 1 to 8, and weight (N, K), both of T.
//
// xn is x, or with NORM x · norm · rsqrt(mean(x²) + EPSILON): every simdgroup walks all of its rows' K anyway, so it
// sums x² beside the products and scales at the end. With ACTIVATION the weight has 2N rows, N of gates and N of ups, and
// the answer is activation(gate) · up. Then BIAS is added (to gates and ups if there are any), and RESIDUAL (M, N) last.
//
// A simdgroup takes OUTPUTS columns of y. Each of its lanes reads 8 elements at a time, so that a simdgroup reads 256
// elements of a row side by side, and issues UNROLL such steps for all its rows of weight before it uses the first:
// what limits this kernel is how many bytes are under way. Weights are read once for all M. K is a multiple of 8.
// With SPLIT > 1 as many simdgroups take turns along K and meet in threadgroup memory; with 1 there is no barrier.
// COUNT is OUTPUTS · M, up to a power of two. W is the type of `norm`.
#include "activation.h"
#include "matvec.h"

#pragma body
#if SPLIT > 1
threadgroup_array(float, partial, SIMDGROUPS * 32 * 3);
#endif
const uint ROWS = (GATED ? 2 : 1) * OUTPUTS;
const uint SPAN = UNROLL * 256;
const bool IS_WHOLE = K % SPAN == 0;
const uint SUMS = (GATED ? 2 : 1) * COUNT;
const uint CHAINS = M == 1 ? 2 : 1;  // of dependent additions, for each sum

const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint share = simdgroup % SPLIT;
const uint first = (threadgroup_position_in_grid.x * (SIMDGROUPS / SPLIT) + simdgroup / SPLIT) * OUTPUTS;
const uint end = first < N ? K : 0;

// Columns past the last one read the last one's weights, and are not written.
const device T* rows[ROWS];
#pragma unroll
for (uint r = 0; r < ROWS; ++r) {
  const uint n = first + r % OUTPUTS;
  rows[r] = weight + size_t(r / OUTPUTS * N + (n < N ? n : N - 1)) * K;
}

float parts[CHAINS * SUMS] = {0.0f}, squares[CHAINS * M] = {0.0f};
for (uint span = share * SPAN; span < end; span += SPLIT * SPAN) {
  packet<T> weights[UNROLL * ROWS], held[UNROLL];
#if NORM
  packet<W> factors[UNROLL];
#endif
#pragma unroll
  for (uint u = 0; u < UNROLL; ++u) {
    const uint at = span + u * 256 + lane * 8;
    if (IS_WHOLE || at < K) {
#pragma unroll
      for (uint r = 0; r < ROWS; ++r) weights[u * ROWS + r] = load_packet(rows[r] + at);
      if (M == 1 && u > 0) held[u] = load_packet(x + at);
#if NORM
      factors[u] = load_packet(norm + at);
#endif
    }
  }
  // Left alone, NVIDIA's compiler moves loads down to where they are used, and two are under way at a time. No load
  // crosses a barrier, so what follows it begins with one that every product waits for: x, of u = 0.
  simdgroup_barrier(mem_flags::mem_none);
#pragma unroll
  for (uint u = 0; u < UNROLL; ++u) {
    const uint at = span + u * 256 + lane * 8;
    if (IS_WHOLE || at < K) {
#pragma unroll
      for (uint m = 0; m < M; ++m) {
        if (M > 1 || u == 0) held[u] = load_packet(x + m * K + at);
        vec8 v = unpack8(held[u]);
#if NORM
        add_products(v, v, squares[m], squares[CHAINS * M - M + m]);
        v = product8(v, unpack8(factors[u]));
#endif
#pragma unroll
        for (uint r = 0; r < ROWS; ++r) {
          const uint i = r / OUTPUTS * COUNT + m * OUTPUTS + r % OUTPUTS;
          add_products(unpack8(weights[u * ROWS + r]), v, parts[i], parts[CHAINS * SUMS - SUMS + i]);
        }
      }
    }
  }
}
if (CHAINS == 2) {
#pragma unroll
  for (uint i = 0; i < SUMS; ++i) parts[i] += parts[CHAINS * SUMS - SUMS + i];
  squares[0] += squares[CHAINS * M - 1];
}

#include "matvec_end.h"
