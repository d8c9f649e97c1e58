// How prefill_attention.metal brings a block of keys or of values to threadgroup memory, and multiplies.
// A thread's pieces of a block: their pages, what lies there, and its place in threadgroup memory.
#define EACH_PIECE(block)                                              \
  _Pragma("unroll") for (uint i = 0; i < VECTORS; ++i) {               \
    const uint piece = loader + i * LOADERS;                           \
    const int token = (block) + int(piece / PIECES);                   \
    const bool is_there = piece < KEYS * PIECES && token >= lowest && token < end;
#define LOOK_UP(block)                                                 \
  EACH_PIECE(block)                                                    \
    if (is_there) page[i] = sequences[own_table + uint(token) / PAGE];    \
  }
#define LOAD_BLOCK(found, pool, block)                                 \
  EACH_PIECE(block)                                                    \
    found[i] = make_vec4(0.0f);                                        \
    if (is_there) {                                                    \
      const uint place = (uint(page[i]) * PAGE + uint(token) % PAGE) * HEAD_DIM + piece % PIECES * EACH; \
      found[i] = load4(reinterpret_cast<const device float*>(pool + place)); \
    }                                                                  \
  }
#define STORE_BLOCK(found, tile, stride)                               \
  _Pragma("unroll") for (uint i = 0; i < VECTORS; ++i) {               \
    const uint piece = loader + i * LOADERS;                           \
    const uint token = piece / PIECES, at = piece % PIECES * EACH;     \
    if (piece < KEYS * PIECES) store4(reinterpret_cast<threadgroup float*>(tile + token * stride + at), found[i]); \
  }

// d[r] += Σ_i left[r, i] · right[i] of COUNT matrices i, one or two, for each of the tiles r.
template <uint TILES, uint COUNT, typename T>
helper void multiply(thread matrix8x8<float>* d, uint d_next, const thread matrix8x8<T>* left, uint left_next,
                     const thread matrix8x8<T>* right, uint apart) {
#pragma unroll
  for (uint r = 0; r < TILES; r += 2) {
    if (COUNT == 2 && r + 1 < TILES) {
      matrix_multiply_two(d + r * d_next, d_next, left + r * left_next, left + (r + 1) * left_next, right, apart);
    } else {
#pragma unroll
      for (uint t = r; t < r + 2 && t < TILES; ++t)
#pragma unroll
        for (uint i = 0; i < COUNT; ++i) matrix_multiply_accumulate(d[t * d_next], left[t * left_next + i], right[i * apart]);
    }
  }
}
