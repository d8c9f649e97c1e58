// y = epilogue(Σ_k W[n, k] · xn[m, k]) as in matvec.metal, for a weight in GGUF's blocks of type BLOCK; see blocks.h.
//
// The lanes of a simdgroup read blocks that follow each other in a row, a part each; everything else is cut as in matvec.metal.
// With one row of x a group's scale and minimum are applied to sums, scale · Σ q x - minimum · Σ x, where Σ x is shared by
// all OUTPUTS; with more rows each weight is made once, for all of them.
//
// EXPONENT says how a q becomes a float. 1: by its bits alone, as in matvec_affine.metal: in the mantissa of 2^8 it reads as
// 256 + q, and 256 + CENTRE is taken off the sums, or the minimum. 0: by conversion.
#include "activation.h"
#include "matvec.h"
#include "blocks.h"

#if EXPONENT
#define OFFSET (256.0f + CENTRE)
helper float byte_weight(uint word, uint i, uint exponent) {
  return as_float((byte_at_15(word, i) & (QUANT_MASK << 15)) | exponent);
}
helper vec4 four_weights(uint word, uint exponent) {
  return make_vec4(byte_weight(word, 0, exponent), byte_weight(word, 1, exponent), byte_weight(word, 2, exponent),
                   byte_weight(word, 3, exponent));
}
#else
#define OFFSET 0.0f
helper vec4 four_weights(uint word, uint exponent) { return quants_of(word); }
#endif

#pragma body
#if SPLIT > 1
threadgroup_array(float, partial, SIMDGROUPS * 32 * 3);
#endif
const uint ROWS = (GATED ? 2 : 1) * OUTPUTS;
const uint SPAN = UNROLL * 32 * LANE_WEIGHTS;
const bool IS_WHOLE = K % SPAN == 0;
const uint SUMS = (GATED ? 2 : 1) * COUNT;

const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint share = simdgroup % SPLIT;
const uint first = (threadgroup_position_in_grid.x * (SIMDGROUPS / SPLIT) + simdgroup / SPLIT) * OUTPUTS;
const uint end = first < N ? K : 0;

// Columns past the last one read the last one's weights, and are not written.
const device UNIT* rows[ROWS];
#pragma unroll
for (uint r = 0; r < ROWS; ++r) {
  const uint n = first + r % OUTPUTS;
  rows[r] = weight + size_t(r / OUTPUTS * N + (n < N ? n : N - 1)) * (K / BLOCK_WEIGHTS * BLOCK_UNITS);
}

// A number that only the launch makes constant; see matvec_affine.metal.
const uint exponent = 0x43800000u + threadgroup_position_in_grid.y;

// Lanes that would read the same banks of a cache begin with different pieces. For one row of x, that is more work than it saves.
const uint turn = M > 1 ? turn_of(lane) : 0;
const uint part = lane % BLOCK_LANES;

float parts[SUMS] = {0.0f}, squares[M] = {0.0f};
for (uint span = share * SPAN; span < end; span += SPLIT * SPAN) {
  uint raw[UNROLL * ROWS * RAW];
#pragma unroll
  for (uint u = 0; u < UNROLL; ++u) {
    const uint at = span + (u * 32 + lane) * LANE_WEIGHTS;
    if (IS_WHOLE || at < K) {
#pragma unroll
      for (uint r = 0; r < ROWS; ++r)
        load_block(raw + (u * ROWS + r) * RAW, rows[r] + at / BLOCK_WEIGHTS * BLOCK_UNITS, part);
    }
  }
  // As in matvec.metal: no load of x crosses it, and no product can be made before one.
  simdgroup_barrier(mem_flags::mem_none);
#pragma unroll
  for (uint u = 0; u < UNROLL; ++u) {
    const uint at = span + (u * 32 + lane) * LANE_WEIGHTS;
    if (IS_WHOLE || at < K) {
      uint words[ROWS * WORDS];
#pragma unroll
      for (uint r = 0; r < ROWS; ++r) arrange_block(words + r * WORDS, raw + (u * ROWS + r) * RAW, part);
      float low[ROWS] = {0.0f}, high[ROWS] = {0.0f}, total = 0.0f;
#pragma unroll
      for (uint number = 0; number < PIECES; ++number) {
        const uint piece = number ^ turn;
        const uint place = at / BLOCK_WEIGHTS * BLOCK_WEIGHTS + place_in_block(part, piece);
        vec8 weights[ROWS];
#pragma unroll
        for (uint r = 0; r < ROWS; ++r) {
          thread const uint* held = words + r * WORDS;
          weights[r] = {four_weights(quant_word(held, piece, 0), exponent), four_weights(quant_word(held, piece, 1), exponent)};
          if (M > 1) {
            const float scale = scale_of(held, piece);
            const vec4 by = make_vec4(scale), after = make_vec4(fma(scale, -OFFSET, -minimum_of(held, piece)));
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
          if (M == 1) total += v.lo.x + v.lo.y + (v.lo.z + v.lo.w) + (v.hi.x + v.hi.y + (v.hi.z + v.hi.w));
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
        if (M == 1 && number % GROUP_PIECES == GROUP_PIECES - 1) {
#pragma unroll
          for (uint r = 0; r < ROWS; ++r) {
            const uint i = r / OUTPUTS * COUNT + r % OUTPUTS;
            const float sum = fma(-OFFSET, total, low[r] + high[r]);
            parts[i] += fma(scale_of(words + r * WORDS, piece), sum, -minimum_of(words + r * WORDS, piece) * total);
            low[r] = high[r] = 0.0f;
          }
          total = 0.0f;
        }
      }
    }
  }
}

#include "matvec_end.h"
