// GGUF's quantised blocks as kernels read them. Layouts: ggml's ggml-common.h (`block_q4_0` …, little-endian); the numbers
// are those of `enum ggml_type` in its ggml.h, which the feature BLOCK names.
//
// A lane takes LANE_WEIGHTS weights of one block, its `part` of BLOCK_LANES: PIECES runs of 8 neighbours that share bytes.
// `load_block` fetches what it needs of a block in loads as wide as blocks are aligned (UNIT), each once but for
// scales, into RAW numbers; `arrange_block` makes WORDS words of these: the two halfs of scales, a byte for each group's
// scale and one for its minimum, then the quants. A weight is scale · (q - CENTRE) - minimum.
#define Q4_0 2
#define Q8_0 8
#define Q2_K 10
#define Q3_K 11
#define Q4_K 12
#define Q5_K 13
#define Q6_K 14

#if BLOCK == Q4_0 || BLOCK == Q8_0
#define BLOCK_WEIGHTS 32
#else
#define BLOCK_WEIGHTS 256
#endif
#if BLOCK == Q8_0
#define LANE_WEIGHTS 16
#else
#define LANE_WEIGHTS 32
#endif
#define BLOCK_LANES (BLOCK_WEIGHTS / LANE_WEIGHTS)
#define PIECES (LANE_WEIGHTS / 8)
#define HAS_MINIMUM (BLOCK == Q2_K || BLOCK == Q4_K || BLOCK == Q5_K)

// Two 16-bit units, the first in the lower bits.
helper uint joined(thread const uint* halves) { return halves[0] | halves[1] << 16; }
// Of two words the first or, where `second` is 1, the other.
helper uint either(thread const uint* words, uint stride, uint second) { return second != 0 ? words[stride] : words[0]; }

#if BLOCK == Q4_0
// half d; u8 qs[16], whose low nibbles are the first 16 weights. A lane takes the block.
#define UNIT ushort
#define BLOCK_UNITS 9
#define RAW 9
#define WORDS 5
#define GROUP_PIECES 4
#define QUANT_MASK 15u
#define CENTRE 8
helper void load_block(thread uint* raw, const device UNIT* block, uint part) {
#pragma unroll
  for (uint i = 0; i < RAW; ++i) raw[i] = block[i];
}
helper void arrange_block(thread uint* words, thread const uint* raw, uint part) {
  words[0] = raw[0];
#pragma unroll
  for (uint i = 0; i < 4; ++i) words[1 + i] = joined(raw + 1 + 2 * i);
}
helper uint quant_word(thread const uint* words, uint piece, uint i) {
  return either(words + 1 + i, 2, piece & 1) >> (piece / 2 * 4);
}
helper uint place_in_block(uint part, uint piece) { return piece * 8; }
helper uint turn_of(uint lane) { return lane / 2 % 4; }
#endif

#if BLOCK == Q8_0
// half d; i8 qs[32]. A lane takes half a block. Signs are turned, so that q is from 0 to 255.
#define UNIT ushort
#define BLOCK_UNITS 17
#define RAW 9
#define WORDS 5
#define GROUP_PIECES 2
#define QUANT_MASK 255u
#define CENTRE 128
helper void load_block(thread uint* raw, const device UNIT* block, uint part) {
  raw[0] = block[0];
#pragma unroll
  for (uint i = 1; i < RAW; ++i) raw[i] = block[part * 8 + i];
}
helper void arrange_block(thread uint* words, thread const uint* raw, uint part) {
  words[0] = raw[0];
#pragma unroll
  for (uint i = 0; i < 4; ++i) words[1 + i] = joined(raw + 1 + 2 * i) ^ 0x80808080u;
}
helper uint quant_word(thread const uint* words, uint piece, uint i) { return either(words + 1 + i, 2, piece & 1); }
helper uint place_in_block(uint part, uint piece) { return part * 16 + piece * 8; }
helper uint turn_of(uint lane) { return lane / 4 % 2; }
#endif

#if BLOCK == Q4_K || BLOCK == Q5_K
// half d, dmin; u8 scales[12]; Q5_K: u8 qh[32]; u8 qs[128]. Run j of 32 bytes of qs has group 2j of 32 weights in its low
// nibbles and group 2j + 1 in its high ones; bit g of qh[l] is the fifth of weight l of group g. A lane takes half a run.
#define UNIT uint
#if BLOCK == Q5_K
#define BLOCK_UNITS 44
#define RAW 12
#define WORDS 11
#define NIBBLES 7
#define QUANT_MASK 31u
#else
#define BLOCK_UNITS 36
#define RAW 8
#define WORDS 7
#define NIBBLES 3
#define QUANT_MASK 15u
#endif
#define GROUP_PIECES 2
#define CENTRE 0
#define SCALE_CENTRE 0
helper void put(thread uint* words, uint4 four) {
  words[0] = four.x;
  words[1] = four.y;
  words[2] = four.z;
  words[3] = four.w;
}
helper void load_block(thread uint* raw, const device UNIT* block, uint part) {
  put(raw, load_words(block));
#if BLOCK == Q5_K
  put(raw + 4, load_words(block + 4 + part % 2 * 4));
#endif
  put(raw + RAW - 4, load_words(block + BLOCK_UNITS - 32 + part * 4));
}
// Scales and minima of the part's two groups g: 6 bits each, for g < 4 those of bytes g and g + 4; for others the low
// four are the nibbles of byte g + 4, and the high two those that bytes g - 4 and g have left.
helper void arrange_block(thread uint* words, thread const uint* raw, uint part) {
  const uint run = part / 2, shift = run % 2 * 16;
  const uint first = raw[1] >> shift, second = raw[2] >> shift, third = raw[3] >> shift;
  words[0] = raw[0];
  words[1] = run < 2 ? first & 0x3f3fu : (third & 0x0f0fu) | (first >> 2 & 0x3030u);
  words[2] = run < 2 ? second & 0x3f3fu : (third >> 4 & 0x0f0fu) | (second >> 2 & 0x3030u);
#pragma unroll
  for (uint i = 0; i < 4; ++i) {
#if BLOCK == Q5_K
    words[3 + i] = raw[4 + i] >> (2 * run);
#endif
    words[NIBBLES + i] = raw[RAW - 4 + i];
  }
}
helper uint quant_word(thread const uint* words, uint piece, uint i) {
  const uint nibbles = either(words + NIBBLES + i, 2, piece & 1) >> (piece / 2 * 4);
#if BLOCK == Q5_K
  const uint fifths = either(words + 3 + i, 2, piece & 1) << 4 >> (piece / 2);
  return (nibbles & 0x0f0f0f0fu) | (fifths & 0x10101010u);
#else
  return nibbles;
#endif
}
helper uint place_in_block(uint part, uint piece) { return part / 2 * 64 + piece / 2 * 32 + part % 2 * 16 + piece % 2 * 8; }
helper uint turn_of(uint lane) { return lane / 2 % 4; }
#endif

#if BLOCK == Q2_K || BLOCK == Q3_K || BLOCK == Q6_K
// Groups of 16. A lane takes, of weights l to l + 7 of the block's first or second half, those at l, l + 32, l + 64, l + 96.
#define GROUP_PIECES 1
helper uint place_in_block(uint part, uint piece) { return part / 4 * 128 + piece * 32 + part % 4 * 8; }
helper uint turn_of(uint lane) { return lane / 4 % 2; }
#endif

#if BLOCK == Q2_K
// u8 scales[16], the low nibble the scale and the high one the minimum; u8 qs[64]; half d, dmin. Bits 2j of qs[l] belong to
// weight 32j + l, in the second half with the second 32 bytes.
#define UNIT uint
#define BLOCK_UNITS 21
#define RAW 5
#define WORDS 5
#define QUANT_MASK 3u
#define CENTRE 0
#define SCALE_CENTRE 0
helper void load_block(thread uint* raw, const device UNIT* block, uint part) {
  const uint upper = part / 4;
  raw[0] = block[20];
#pragma unroll
  for (uint i = 0; i < 2; ++i) {
    raw[1 + i] = block[upper * 2 + i];
    raw[3 + i] = block[4 + part * 2 + i];
  }
}
helper void arrange_block(thread uint* words, thread const uint* raw, uint part) {
  const uint odd = part / 2 % 2 * 8;
  words[0] = raw[0];
  words[1] = words[2] = 0;
#pragma unroll
  for (uint j = 0; j < 4; ++j) {
    const uint both = raw[1 + j / 2] >> (j % 2 * 16 + odd);
    words[1] |= (both & 15u) << (8 * j);
    words[2] |= (both >> 4 & 15u) << (8 * j);
  }
  words[3] = raw[3];
  words[4] = raw[4];
}
helper uint quant_word(thread const uint* words, uint piece, uint i) { return words[3 + i] >> (2 * piece); }
#endif

#if BLOCK == Q3_K
// u8 hmask[32], qs[64], scales[12]; half d. The low two bits as in Q2_K; bit g of hmask[l] is the third of weight 32g + l,
// over the whole block. Scale s of 16 has its low four bits in the nibbles of scales[s % 8] and its high two in scales[8 + s % 4].
#define UNIT ushort
#define BLOCK_UNITS 55
#define RAW 15
#define WORDS 6
#define QUANT_MASK 7u
#define CENTRE 4
#define SCALE_CENTRE 32
helper void load_block(thread uint* raw, const device UNIT* block, uint part) {
  raw[0] = block[54];
#pragma unroll
  for (uint i = 0; i < 4; ++i) {
    raw[1 + i] = block[part % 4 * 4 + i];
    raw[5 + i] = block[16 + part * 4 + i];
  }
#pragma unroll
  for (uint i = 0; i < 6; ++i) raw[9 + i] = block[48 + i];
}
helper void arrange_block(thread uint* words, thread const uint* raw, uint part) {
  const uint upper = part / 4, odd = part / 2 % 2 * 8;
  words[0] = raw[0];
  words[1] = 0;
#pragma unroll
  for (uint j = 0; j < 4; ++j) {
    const uint low = raw[9 + j] >> (odd + upper * 4) & 15u;
    const uint high = raw[13 + j % 2] >> (odd + upper * 4 + j / 2 * 2) & 3u;
    words[1] |= (low | high << 4) << (8 * j);
  }
#pragma unroll
  for (uint i = 0; i < 2; ++i) {
    words[2 + i] = joined(raw + 1 + 2 * i) >> (upper * 4);
    words[4 + i] = joined(raw + 5 + 2 * i);
  }
}
helper uint quant_word(thread const uint* words, uint piece, uint i) {
  return (words[4 + i] >> (2 * piece) & 0x03030303u) | (words[2 + i] << 2 >> piece & 0x04040404u);
}
#endif

#if BLOCK == Q6_K
// u8 ql[128], qh[64]; i8 scales[16]; half d. Of each half: ql[l] has the low nibbles of weights l and l + 64, ql[l + 32] those
// of l + 32 and l + 96, qh[l] two bits of each of the four.
#define UNIT ushort
#define BLOCK_UNITS 105
#define RAW 17
#define WORDS 8
#define QUANT_MASK 63u
#define CENTRE 32
#define SCALE_CENTRE 128
helper void load_block(thread uint* raw, const device UNIT* block, uint part) {
  const uint upper = part / 4, run = part % 4 * 4;
  raw[0] = block[104];
#pragma unroll
  for (uint i = 0; i < 4; ++i) {
    raw[1 + i] = block[upper * 32 + run + i];
    raw[5 + i] = block[upper * 32 + 16 + run + i];
    raw[9 + i] = block[64 + upper * 16 + run + i];
    raw[13 + i] = block[96 + upper * 4 + i];
  }
}
helper void arrange_block(thread uint* words, thread const uint* raw, uint part) {
  const uint odd = part / 2 % 2 * 8;
  words[0] = raw[0];
  words[1] = 0;
#pragma unroll
  for (uint j = 0; j < 4; ++j) words[1] |= ((raw[13 + j] >> odd & 255u) ^ 128u) << (8 * j);
#pragma unroll
  for (uint i = 0; i < 2; ++i) {
    words[2 + i] = joined(raw + 1 + 2 * i);
    words[4 + i] = joined(raw + 5 + 2 * i);
    words[6 + i] = joined(raw + 9 + 2 * i);
  }
}
helper uint quant_word(thread const uint* words, uint piece, uint i) {
  const uint nibbles = either(words + 2 + i, 2, piece & 1) >> (piece / 2 * 4);
  return (nibbles & 0x0f0f0f0fu) | (words[6 + i] >> (2 * piece) << 4 & 0x30303030u);
}
#endif

// Of the group that a piece lies in.
helper float scale_of(thread const uint* words, uint piece) {
  const float d = half_to_float(words[0] & 0xffffu);
#if BLOCK_WEIGHTS == 32
  return d;
#else
  return d * to_float(int(words[1] >> (piece / GROUP_PIECES * 8) & 255u) - SCALE_CENTRE);
#endif
}
helper float minimum_of(thread const uint* words, uint piece) {
#if HAS_MINIMUM
  return half_to_float(words[0] >> 16) * to_float(words[2] >> (piece / GROUP_PIECES * 8) & 255u);
#else
  return 0.0f;
#endif
}

// The four q - CENTRE of a word.
helper vec4 quants_of(uint word) {
  return make_vec4(
      to_float(int(word & QUANT_MASK) - CENTRE), to_float(int(word >> 8 & QUANT_MASK) - CENTRE),
      to_float(int(word >> 16 & QUANT_MASK) - CENTRE), to_float(int(word >> 24 & QUANT_MASK) - CENTRE));
}
// The eight weights of a piece.
helper vec8 weights_of(thread const uint* words, uint piece) {
  const vec4 scale = make_vec4(scale_of(words, piece)), after = make_vec4(-minimum_of(words, piece));
  return {fma(quants_of(quant_word(words, piece, 0)), scale, after),
          fma(quants_of(quant_word(words, piece, 1)), scale, after)};
}
