// y = epilogue(Σ_k W[n, k] · xn[m, k]) as in matvec.metal, for a weight of BITS (4 or 8) bits in MLX's affine form:
// W[n, k] = scales[n, k / GROUP] · q[n, k] + biases[n, k / GROUP], the q of 32 / BITS weights in each word of `weight`,
// the first in the lowest bits.
//
// Lanes read 16 bytes of a row at a time: PACKET weights, which are of one group. Everything else is cut as in
// matvec.metal. With one row of x the group's scale and bias are applied to sums, scale · Σ q x + bias · Σ x, where Σ x is
// shared by all OUTPUTS; with more rows each weight is made once, for all of them. S is the type of scales and biases.
//
// EXPONENT says how a q becomes a float. 1: by its bits alone. Put into the mantissa of 2^8 (or 2^4) so that its units
// are units there, it reads as 256 + q (or 16 + q), and what was added is taken off the sums, or the bias. 0: by conversion.
#include "activation.h"
#include "matvec.h"

#define PACKET (128 / BITS)
#define PIECES (PACKET / 8)

#if EXPONENT
#define EVEN_OFFSET 256.0f
#if BITS == 4
#define ODD_OFFSET 16.0f
#else
#define ODD_OFFSET 256.0f
#endif
#else
#define EVEN_OFFSET 0.0f
#define ODD_OFFSET 0.0f
#endif

// The exponents of 2^8 and 2^4, as bits of a float.
struct exponents {
  uint even, odd;
};

#if BITS == 4
// The floats of weights 2i and 2i + 1 of a word, EVEN_OFFSET and ODD_OFFSET too large.
helper float even_weight(uint word, uint i, thread const exponents& exponent) {
#if EXPONENT
  return as_float((byte_at_15(word, i) & 0x78000u) | exponent.even);
#else
  return to_float((word >> (8 * i)) & 15u);
#endif
}
helper float odd_weight(uint word, uint i, thread const exponents& exponent) {
#if EXPONENT
  return as_float((byte_at_15(word, i) & 0x780000u) | exponent.odd);
#else
  return to_float((word >> (8 * i + 4)) & 15u);
#endif
}
helper vec4 four_weights(uint word, uint i, thread const exponents& exponent) {
  return make_vec4(even_weight(word, i, exponent), odd_weight(word, i, exponent),
                   even_weight(word, i + 1, exponent), odd_weight(word, i + 1, exponent));
}
// The packet that begins with piece `by`, and goes around.
helper uint4 turned(uint4 words, uint by) {
  const uint a = words.x, b = words.y, c = words.z, d = words.w;
  const bool is_odd = (by & 1) != 0;
  const uint e = is_odd ? b : a, f = is_odd ? c : b, g = is_odd ? d : c, h = is_odd ? a : d;
  const bool is_far = (by & 2) != 0;
  words.x = is_far ? g : e;
  words.y = is_far ? h : f;
  words.z = is_far ? e : g;
  words.w = is_far ? f : h;
  return words;
}
// Eight weights of a packet, those of word `piece`.
helper vec8 unpacked(uint4 words, uint piece, thread const exponents& exponent) {
  const uint word = piece == 0 ? words.x : piece == 1 ? words.y : piece == 2 ? words.z : words.w;
  return {four_weights(word, 0, exponent), four_weights(word, 2, exponent)};
}
#else
helper float byte_weight(uint word, uint i, thread const exponents& exponent) {
#if EXPONENT
  return as_float((byte_at_15(word, i) & 0x7f8000u) | exponent.even);
#else
  return to_float((word >> (8 * i)) & 255u);
#endif
}
helper vec4 four_weights(uint word, thread const exponents& exponent) {
  return make_vec4(byte_weight(word, 0, exponent), byte_weight(word, 1, exponent), byte_weight(word, 2, exponent),
                   byte_weight(word, 3, exponent));
}
// The packet that begins with piece `by`.
helper uint4 turned(uint4 words, uint by) {
  const uint a = words.x, b = words.y, c = words.z, d = words.w;
  words.x = by == 0 ? a : c;
  words.y = by == 0 ? b : d;
  words.z = by == 0 ? c : a;
  words.w = by == 0 ? d : b;
  return words;
}
// Eight weights of a packet, those of words 2 · piece and the next.
helper vec8 unpacked(uint4 words, uint piece, thread const exponents& exponent) {
  return {four_weights(piece == 0 ? words.x : words.z, exponent),
          four_weights(piece == 0 ? words.y : words.w, exponent)};
}
#endif

#pragma body
#if SPLIT > 1
threadgroup_array(float, partial, SIMDGROUPS * 32 * 3);
#endif
const uint ROWS = (GATED ? 2 : 1) * OUTPUTS;
const uint SPAN = UNROLL * 32 * PACKET;
const bool IS_WHOLE = K % SPAN == 0;
const uint SUMS = (GATED ? 2 : 1) * COUNT;

const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint share = simdgroup % SPLIT;
const uint first = (threadgroup_position_in_grid.x * (SIMDGROUPS / SPLIT) + simdgroup / SPLIT) * OUTPUTS;
const uint end = first < N ? K : 0;

// Columns past the last one read the last one's weights, and are not written.
size_t rows[ROWS];
#pragma unroll
for (uint r = 0; r < ROWS; ++r) {
  const uint n = first + r % OUTPUTS;
  rows[r] = r / OUTPUTS * N + (n < N ? n : N - 1);
}

// Numbers that only the launch makes constant: one instruction of NVIDIA's masks and sets bits, with room for one constant.
const uint nothing = threadgroup_position_in_grid.y;
const exponents exponent = {0x43800000u + nothing, 0x41800000u + nothing};

// Lanes that would read the same banks of a cache begin with different pieces. For one row of x, turning is as much work.
const uint turn = M > 1 ? lane * PIECES / 8 % PIECES : 0;

float parts[SUMS] = {0.0f}, squares[M] = {0.0f};
for (uint span = share * SPAN; span < end; span += SPLIT * SPAN) {
  uint4 words[UNROLL * ROWS];
  S group_scales[UNROLL * ROWS], group_biases[UNROLL * ROWS];
#pragma unroll
  for (uint u = 0; u < UNROLL; ++u) {
    const uint at = span + (u * 32 + lane) * PACKET;
    if (IS_WHOLE || at < K) {
#pragma unroll
      for (uint r = 0; r < ROWS; ++r)
        words[u * ROWS + r] = load_words(weight + rows[r] * (K * BITS / 32) + at * BITS / 32);
#pragma unroll
      for (uint r = 0; r < ROWS; ++r) {
        const size_t group = rows[r] * (K / GROUP) + at / GROUP;
        group_scales[u * ROWS + r] = scales[group];
        group_biases[u * ROWS + r] = biases[group];
      }
    }
  }
  // As in matvec.metal: no load of x crosses it, and no product can be made before one.
  simdgroup_barrier(mem_flags::mem_none);
#pragma unroll
  for (uint u = 0; u < UNROLL; ++u) {
    const uint at = span + (u * 32 + lane) * PACKET;
    if (IS_WHOLE || at < K) {
      float low[ROWS] = {0.0f}, high[ROWS] = {0.0f}, even = 0.0f, odd = 0.0f;
      float scale[ROWS], offset[ROWS];
#pragma unroll
      for (uint r = 0; r < ROWS; ++r) {
        if (M > 1) words[u * ROWS + r] = turned(words[u * ROWS + r], turn);
        scale[r] = to_float(group_scales[u * ROWS + r]);
        offset[r] = to_float(group_biases[u * ROWS + r]);
      }
#pragma unroll
      for (uint piece = 0; piece < PIECES; ++piece) {
        const uint place = at + (piece + turn) % PIECES * 8;
        vec8 weights[ROWS];
#pragma unroll
        for (uint r = 0; r < ROWS; ++r) {
          weights[r] = unpacked(words[u * ROWS + r], piece, exponent);
          if (M > 1) {
            const float after_even = fma(scale[r], -EVEN_OFFSET, offset[r]);
            const float after_odd = fma(scale[r], -ODD_OFFSET, offset[r]);
            const vec4 by = make_vec4(scale[r]), after = make_vec4(after_even, after_odd, after_even, after_odd);
            weights[r] = {fma(weights[r].lo, by, after), fma(weights[r].hi, by, after)};
          }
        }
#if NORM
        const vec8 factor = load8(norm + place);
#endif
#pragma unroll
        for (uint m = 0; m < M; ++m) {
          vec8 v = load8(x + m * K + place);
#if NORM
          add_products(v, v, squares[m], squares[m]);
          v = product8(v, factor);
#endif
          if (M == 1) {
            even += v.lo.x + v.lo.z + (v.hi.x + v.hi.z);
            odd += v.lo.y + v.lo.w + (v.hi.y + v.hi.w);
          }
#pragma unroll
          for (uint r = 0; r < ROWS; ++r) {
            const uint i = r / OUTPUTS * COUNT + m * OUTPUTS + r % OUTPUTS;
            if (M == 1) {
              add_products(weights[r], v, low[r], high[r]);
            } else {
              add_products(weights[r], v, parts[i], parts[i]);
            }
          }
        }
      }
      if (M == 1) {
        const float added = EVEN_OFFSET * even + ODD_OFFSET * odd;
#pragma unroll
        for (uint r = 0; r < ROWS; ++r) {
          const uint i = r / OUTPUTS * COUNT + r % OUTPUTS;
          const float sum = low[r] + high[r] - added;
          parts[i] += fma(scale[r], sum, offset[r] * (even + odd));
        }
      }
    }
  }
}

#include "matvec_end.h"
