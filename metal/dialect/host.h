// The dialect for the host: the emulator (metal/emulator) supplies threads, barriers and simdgroups behind it.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "emulator.h"

typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;

#define helper inline

// Storage formats only: no arithmetic, so that a body which computes in half does not compile here.
struct half {
  uint16_t bits;
};
struct bfloat {
  uint16_t bits;
};

namespace mlxr {

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

// IEEE 754 binary16, rounding to nearest, ties to even. Subnormals are scaled by a float addition that rounds.
inline uint16_t half_bits(float value) {
  const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) return uint16_t(sign | 0x7c00u | (magnitude > 0x7f800000u ? 0x200u : 0u));
  if (magnitude >= 0x477ff000u) return uint16_t(sign | 0x7c00u);  // rounds to 2^16 or more
  if (magnitude < 0x38800000u)                                    // below 2^-14: a multiple of 2^-24
    return uint16_t(sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u));
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return uint16_t(sign | (rounded - 0x38000000u) >> 13);
}
inline float half_value(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1fu, fraction = bits & 0x3ffu;
  if (exponent == 0x1fu) return float_of(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) return float_of(sign | bits_of(float(fraction) * 0x1p-24f));
  return float_of(sign | (exponent + 112u) << 23 | fraction << 13);
}
inline uint16_t bfloat_bits(float value) {
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t(bits >> 16 | 0x40u);
  return uint16_t((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace mlxr

inline float as_float(uint bits) { return mlxr::float_of(bits); }
inline float half_to_float(uint bits) { return mlxr::half_value(uint16_t(bits)); }

inline float to_float(float value) { return value; }
inline float to_float(half value) { return mlxr::half_value(value.bits); }
inline float to_float(bfloat value) { return mlxr::float_of(uint32_t(value.bits) << 16); }
inline float to_float(int value) { return float(value); }
inline float to_float(uint value) { return float(value); }

template <typename T>
inline T from_float(float value) {
  if constexpr (std::is_same_v<T, half>) return {mlxr::half_bits(value)};
  else if constexpr (std::is_same_v<T, bfloat>) return {mlxr::bfloat_bits(value)};
  else { static_assert(std::is_same_v<T, float>, "from_float makes float, half or bfloat"); return value; }
}

// The C library's functions of these names take double; these hide them inside the kernel's namespace.
namespace kernel {
using mlxr::uint3;
inline float exp2(float x) { return std::exp2(x); }
inline float exp(float x) { return std::exp(x); }
inline float log(float x) { return std::log(x); }
inline float log2(float x) { return std::log2(x); }
inline float sin(float x) { return std::sin(x); }
inline float cos(float x) { return std::cos(x); }
inline float tanh(float x) { return std::tanh(x); }
inline float sqrt(float x) { return std::sqrt(x); }
inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }
inline float abs(float x) { return std::fabs(x); }
inline int abs(int x) { return x < 0 ? -x : x; }
template <typename V>
inline V max(V a, V b) { return a > b ? a : b; }
template <typename V>
inline V min(V a, V b) { return a < b ? a : b; }

struct vec4 {
  float x, y, z, w;
};
#include "vec4.h"

struct uint4 {
  uint x, y, z, w;
};

// What a GPU fetches with one instruction, at most 16 bytes. Copied as bytes: MLX's arrays on the host start at
// multiples of 8, so alignment is asked of the place inside the array, which is what a GPU sees.
template <typename T, int N>
struct Pack {
  T at[N];
};
template <int N, typename T>
inline Pack<T, N> load_pack(const T* p, mlxr::Site site) {
  static_assert(sizeof(Pack<T, N>) <= 16);
  mlxr::check_alignment(p, sizeof(Pack<T, N>), site);
  Pack<T, N> pack;
  std::memcpy(&pack, p, sizeof(pack));
  return pack;
}
template <int N, typename T>
inline void store_pack(T* p, const Pack<T, N>& pack, mlxr::Site site) {
  static_assert(sizeof(Pack<T, N>) <= 16);
  mlxr::check_alignment(p, sizeof(Pack<T, N>), site);
  std::memcpy(p, &pack, sizeof(pack));
}

template <typename T>
inline vec4 load4(const T* p, MLXR_HERE) {
  const Pack<T, 4> v = load_pack<4>(p, {file, line});
  return {to_float(v.at[0]), to_float(v.at[1]), to_float(v.at[2]), to_float(v.at[3])};
}
template <typename T>
using packet = Pack<T, 8>;
template <typename T>
inline packet<T> load_packet(const T* p, MLXR_HERE) {
  if constexpr (sizeof(T) == 4) {
    const Pack<T, 4> lo = load_pack<4>(p, {file, line}), hi = load_pack<4>(p + 4, {file, line});
    return {{lo.at[0], lo.at[1], lo.at[2], lo.at[3], hi.at[0], hi.at[1], hi.at[2], hi.at[3]}};
  } else {
    return load_pack<8>(p, {file, line});
  }
}
template <typename T>
inline vec8 unpack8(const Pack<T, 8>& v) {
  return {{to_float(v.at[0]), to_float(v.at[1]), to_float(v.at[2]), to_float(v.at[3])},
          {to_float(v.at[4]), to_float(v.at[5]), to_float(v.at[6]), to_float(v.at[7])}};
}
template <typename T>
inline vec8 load8(const T* p, MLXR_HERE) {
  return unpack8(load_packet(p, file, line));
}
inline uint4 load_words(const uint* p, MLXR_HERE) {
  const Pack<uint, 4> v = load_pack<4>(p, {file, line});
  return {v.at[0], v.at[1], v.at[2], v.at[3]};
}
template <typename T>
inline void store4(T* p, vec4 v, MLXR_HERE) {
  store_pack<4, T>(p, {{from_float<T>(v.x), from_float<T>(v.y), from_float<T>(v.z), from_float<T>(v.w)}},
                   {file, line});
}
template <typename T>
inline void store8(T* p, vec8 v, MLXR_HERE) {
  if constexpr (sizeof(T) == 4) {
    store4(p, v.lo, file, line);
    store4(p + 4, v.hi, file, line);
  } else {
    const float from[8] = {v.lo.x, v.lo.y, v.lo.z, v.lo.w, v.hi.x, v.hi.y, v.hi.z, v.hi.w};
    Pack<T, 8> pack;
    for (int i = 0; i < 8; ++i) pack.at[i] = from_float<T>(from[i]);
    store_pack<8, T>(p, pack, {file, line});
  }
}
template <typename T>
inline T* writable(const T* p) {
  return const_cast<T*>(p);
}

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
inline mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }
inline void threadgroup_barrier(mem_flags flags, MLXR_HERE) { mlxr::threadgroup_barrier(int(flags), {file, line}); }
inline void simdgroup_barrier(mem_flags flags, MLXR_HERE) { mlxr::simdgroup_barrier(int(flags), {file, line}); }

#define threadgroup_array(T, name, count)                                                       \
  static_assert((count) * sizeof(T) <= 32768, "threadgroup array " #name " is over 32 KB");     \
  T(&name)[count] = *static_cast<T(*)[count]>(                                                  \
      mlxr::threadgroup_memory(__COUNTER__, sizeof(T) * (count), #name, {__FILE__, __LINE__}))
#define matrix_load_wide_transposed_once matrix_load_wide_transposed

// The lanes of a simdgroup meet, each with a value; the copies of all 32 are what comes back.
template <typename V>
MLXR_UNCHECKED inline void meet(const V& mine, V (&all)[32], const char* what, mlxr::Site site) {
  static_assert(sizeof(V) <= mlxr::kMeetingBytes);
  const unsigned char* from = mlxr::exchange(&mine, sizeof(V), what, site);
  for (int i = 0; i < 32; ++i) std::memcpy(&all[i], from + i * mlxr::kMeetingBytes, sizeof(V));
}
template <typename V>
MLXR_UNCHECKED inline V lane_of(V value, uint lane, const char* what, mlxr::Site site) {
  V all[32];
  meet(value, all, what, site);
  if (lane >= 32) mlxr::refuse(site, "%s reads lane %u of 32", what, lane);
  return all[lane];
}
template <typename V>
inline V simd_shuffle(V value, uint lane, MLXR_HERE) {
  return lane_of(value, lane, "simd_shuffle", {file, line});
}
template <typename V>
inline V simd_shuffle_xor(V value, uint mask, MLXR_HERE) {
  return lane_of(value, mlxr::here->lane ^ mask, "simd_shuffle_xor", {file, line});
}
template <typename V>
MLXR_UNCHECKED inline V simd_broadcast(V value, uint lane, MLXR_HERE) {
  struct { V value; uint lane; } mine = {value, lane}, all[32];
  meet(mine, all, "simd_broadcast", {file, line});
  for (const auto& other : all)
    if (other.lane != lane) mlxr::refuse({file, line}, "simd_broadcast from lane %u and lane %u at once", lane, other.lane);
  if (lane >= 32) mlxr::refuse({file, line}, "simd_broadcast reads lane %u of 32", lane);
  return all[lane].value;
}
// Lanes past the end are undefined on a GPU: here they get 0xFF bytes, which is NaN as a float.
template <typename V>
MLXR_UNCHECKED inline V simd_shuffle_down(V value, uint delta, MLXR_HERE) {
  V all[32];
  meet(value, all, "simd_shuffle_down", {file, line});
  if (mlxr::here->lane + delta < 32) return all[mlxr::here->lane + delta];
  std::memset(&value, 0xff, sizeof(V));
  return value;
}
// A tree, as on a GPU: adding lane after lane would round differently.
template <typename V>
MLXR_UNCHECKED inline V simd_sum(V value, MLXR_HERE) {
  V all[32];
  meet(value, all, "simd_sum", {file, line});
  for (uint half_width = 16; half_width > 0; half_width /= 2)
    for (uint i = 0; i < half_width; ++i) all[i] += all[i + half_width];
  return all[0];
}
template <typename V>
MLXR_UNCHECKED inline V simd_max(V value, MLXR_HERE) {
  V all[32];
  meet(value, all, "simd_max", {file, line});
  for (V other : all) value = other > value ? other : value;
  return value;
}

template <typename V>
MLXR_UNCHECKED inline bool mlxr_any(V value, mlxr::Site site) {
  V all[32];
  meet(value, all, "simd_any", site);
  for (V other : all)
    if (other) return true;
  return false;
}
inline bool simd_any(bool value, MLXR_HERE) { return mlxr_any(value, {file, line}); }

// A lane holds two neighbours of a row where Apple's GPUs hold them: MLX's own kernels count on that
// (mlx/backend/metal/kernels/steel/gemm/mma.h, BaseMMAFrag::get_coord). Other devices have other places.
inline uint matrix_row(uint lane) { return lane / 16 * 4 + lane / 2 % 4; }
inline uint matrix_column(uint lane) { return lane / 8 % 2 * 4 + lane % 2 * 2; }
inline uint mlxr_lane_of(uint row, uint column) { return row / 4 * 16 + column / 4 * 8 + row % 4 * 2 + column / 2 % 2; }
MLXR_UNCHECKED inline float matrix_row_max(float value, MLXR_HERE) {
  float all[32];
  meet(value, all, "matrix_row_max", {file, line});
  const uint row = matrix_row(mlxr::here->lane);
  for (uint column = 0; column < 8; column += 2) value = max(value, all[mlxr_lane_of(row, column)]);
  return value;
}
MLXR_UNCHECKED inline float matrix_row_sum(float value, MLXR_HERE) {
  float all[32];
  meet(value, all, "matrix_row_sum", {file, line});
  const uint row = matrix_row(mlxr::here->lane);
  const float low = all[mlxr_lane_of(row, 0)] + all[mlxr_lane_of(row, 2)];
  return low + (all[mlxr_lane_of(row, 4)] + all[mlxr_lane_of(row, 6)]);
}
template <typename T>
class matrix8x8 {
 public:
  float pair[2];
};
inline float matrix_get(const matrix8x8<float>& m, uint i) { return m.pair[i]; }
inline void matrix_set(matrix8x8<float>& m, uint i, float value) { m.pair[i] = value; }
inline void matrix_scale(matrix8x8<float>& m, float by) {
  m.pair[0] *= by;
  m.pair[1] *= by;
}
template <typename T>
inline void matrix_narrow(matrix8x8<T>& d, const matrix8x8<float>& m) {
  for (uint i = 0; i < 2; ++i) d.pair[i] = to_float(from_float<T>(m.pair[i]));
}
template <typename T>
inline float matrix_squares(const matrix8x8<T>& m) {
  return std::fma(m.pair[0], m.pair[0], m.pair[1] * m.pair[1]);
}
template <typename T>
inline void matrix_weigh(matrix8x8<T>& m, const matrix8x8<T>& by) {
  for (uint i = 0; i < 2; ++i) m.pair[i] = to_float(from_float<T>(m.pair[i] * by.pair[i]));
}
template <typename T>
inline void matrix_fill(matrix8x8<T>& m, float value) {
  m.pair[0] = m.pair[1] = value;
}
template <typename T>
MLXR_UNCHECKED inline void same_matrix(const T* p, uint stride, const char* what, mlxr::Site site) {
  mlxr::check_alignment(p, 2 * sizeof(T), site);
  if (stride % 2 != 0) mlxr::refuse(site, "%s with an odd stride, %u", what, stride);
  struct { const T* p; uint stride, unused; } mine = {p, stride, 0}, all[32];
  meet(mine, all, what, site);
  for (const auto& other : all)
    if (other.p != p || other.stride != stride) mlxr::refuse(site, "%s of different matrices in one simdgroup", what);
}
template <typename T>
inline void matrix_load(matrix8x8<T>& m, const T* p, uint stride, MLXR_HERE) {
  same_matrix(p, stride, "matrix_load", {file, line});
  const uint row = matrix_row(mlxr::here->lane), column = matrix_column(mlxr::here->lane);
  m.pair[0] = to_float(p[row * stride + column]);
  m.pair[1] = to_float(p[row * stride + column + 1]);
}
template <typename T>
inline void matrix_load_transposed(matrix8x8<T>& m, const T* p, uint stride, MLXR_HERE) {
  same_matrix(p, stride, "matrix_load_transposed", {file, line});
  const uint row = matrix_row(mlxr::here->lane), column = matrix_column(mlxr::here->lane);
  m.pair[0] = to_float(p[column * stride + row]);
  m.pair[1] = to_float(p[(column + 1) * stride + row]);
}
template <typename T>
inline void matrix_store(const matrix8x8<T>& m, T* p, uint stride, MLXR_HERE) {
  same_matrix<T>(p, stride, "matrix_store", {file, line});
  const uint row = matrix_row(mlxr::here->lane), column = matrix_column(mlxr::here->lane);
  p[row * stride + column] = from_float<T>(m.pair[0]);
  p[row * stride + column + 1] = from_float<T>(m.pair[1]);
}
template <typename T>
MLXR_UNCHECKED inline void matrix_multiply_accumulate(
    matrix8x8<float>& d, const matrix8x8<T>& a, const matrix8x8<T>& b, MLXR_HERE) {
  struct { float a[2], b[2]; } mine = {{a.pair[0], a.pair[1]}, {b.pair[0], b.pair[1]}}, all[32];
  meet(mine, all, "matrix_multiply_accumulate", {file, line});
  const uint row = matrix_row(mlxr::here->lane), column = matrix_column(mlxr::here->lane);
  for (uint k = 0; k < 8; ++k) {
    const float left = all[mlxr_lane_of(row, k)].a[k % 2];
    const auto& right = all[mlxr_lane_of(k, column)];
    d.pair[0] = std::fma(left, right.b[0], d.pair[0]);
    d.pair[1] = std::fma(left, right.b[1], d.pair[1]);
  }
}
// N matrices of 8 rows, 8 N columns together. Which column lies where is the device's matter, but the same for
// every such load: what is multiplied was loaded so on both sides. An access takes `elements` of a row, to 16 bytes.
template <typename T>
MLXR_UNCHECKED inline void accesses(const T* p, uint stride, uint elements, const char* what, mlxr::Site site) {
  const size_t bytes = min(size_t(16), elements * sizeof(T));
  mlxr::check_alignment(p, bytes, site);
  if (stride * sizeof(T) % bytes != 0) mlxr::refuse(site, "%s with a stride of %u, no whole %zu bytes", what, stride, bytes);
}
template <uint N, typename T>
inline void matrix_load_wide(matrix8x8<T>* m, const T* p, uint stride, MLXR_HERE) {
  accesses(p, stride, 2 * N, "a wide matrix", {file, line});
  for (uint i = 0; i < N; ++i) matrix_load(m[i], p + 8 * i, stride, file, line);
}
template <uint N, typename T>
inline void matrix_load_wide_transposed(matrix8x8<T>* m, const T* p, uint stride, MLXR_HERE) {
  accesses(p, stride, 2 * N, "a wide matrix", {file, line});
  for (uint i = 0; i < N; ++i) matrix_load_transposed(m[i], p + 8 * i, stride, file, line);
}
template <uint N, typename T>
inline void matrix_read_wide(matrix8x8<T>* m, const T* p, uint lane, MLXR_HERE) {
  accesses(p, 2 * N, 2 * N, "a wide matrix", {file, line});
  for (uint i = 0; i < N; ++i)
    for (uint e = 0; e < 2; ++e) m[i].pair[e] = to_float(p[8 * i + matrix_column(lane) + e]);
}
// The same of right matrices, whose columns another device puts elsewhere: only `matrix_write_right` knows where.
template <uint N, typename T>
inline void matrix_load_right(matrix8x8<T>* m, const T* p, uint stride, MLXR_HERE) {
  accesses(p, stride, N, "a right matrix", {file, line});
  for (uint i = 0; i < N; ++i) matrix_load(m[i], p + 8 * i, stride, file, line);
}
template <uint N, typename T>
inline void matrix_write_right(const matrix8x8<float>* m, T* p, uint lane, MLXR_HERE) {
  accesses(p, N, N, "a right matrix", {file, line});
  for (uint i = 0; i < N; ++i)
    for (uint e = 0; e < 2; ++e) p[8 * i + matrix_column(lane) + e] = from_float<T>(m[i].pair[e]);
}
template <typename T>
inline void matrix_multiply_two(matrix8x8<float>* d, uint next, const matrix8x8<T>* upper, const matrix8x8<T>* lower,
                                const matrix8x8<T>* b, uint apart, MLXR_HERE) {
  for (uint i = 0; i < 2; ++i) {
    matrix_multiply_accumulate(d[0], upper[i], b[i * apart], file, line);
    matrix_multiply_accumulate(d[next], lower[i], b[i * apart], file, line);
  }
}
}  // namespace kernel

// Metal's names for a thread's place.
#define thread_position_in_grid (mlxr::here->in_grid)
#define thread_position_in_threadgroup (mlxr::here->in_threadgroup)
#define threadgroup_position_in_grid (mlxr::here->group)
#define threads_per_threadgroup (mlxr::shape->threads_per_threadgroup)
#define threadgroups_per_grid (mlxr::shape->threadgroups)
#define thread_index_in_threadgroup (mlxr::here->index)
#define thread_index_in_simdgroup (mlxr::here->lane)
#define simdgroup_index_in_threadgroup (mlxr::here->simdgroup)
#define simdgroups_per_threadgroup (mlxr::shape->simdgroups)
