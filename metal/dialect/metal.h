// The dialect for Apple GPUs: mx.fast.metal_kernel puts MLX's own header (metal_stdlib, `using namespace metal`)
// before this text. Most of the dialect is Metal as it stands; this adds the names that Metal lacks.
#include <metal_simdgroup>
#include <metal_simdgroup_matrix>

#define helper inline
#define threadgroup_array(T, name, count) alignas(16) threadgroup T name[count]
#define matrix_load_wide_transposed_once matrix_load_wide_transposed

typedef float4 vec4;

struct vec8 {
  vec4 lo, hi;
};

inline vec4 make_vec4(float x, float y, float z, float w) { return vec4(x, y, z, w); }
inline vec4 make_vec4(float every) { return vec4(every); }

inline float as_float(uint bits) { return as_type<float>(bits); }
inline float half_to_float(uint bits) { return float(as_type<half>(ushort(bits))); }

template <typename T>
inline float to_float(T value) {
  return float(value);
}

template <typename T>
inline T from_float(float value) {
  return T(value);
}

// Eight 16-bit values as one 16-byte access; two such accesses for float.
template <typename T>
struct alignas(16) packet {
  vec<T, 4> lo, hi;
};
template <typename T>
inline vec8 unpack8(thread const packet<T>& raw) {
  return {vec4(raw.lo), vec4(raw.hi)};
}

// Metal overloads by address space, so the vector accesses are stamped out for each.
#define MLXR_LOADS(space)                                                        \
  template <typename T>                                                          \
  inline vec4 load4(const space T* p) {                                          \
    return vec4(*reinterpret_cast<const space vec<T, 4>*>(p));                   \
  }                                                                              \
  template <typename T>                                                          \
  inline packet<T> load_packet(const space T* p) {                               \
    return *reinterpret_cast<const space packet<T>*>(p);                         \
  }                                                                              \
  template <typename T>                                                          \
  inline vec8 load8(const space T* p) {                                          \
    const packet<T> raw = *reinterpret_cast<const space packet<T>*>(p);          \
    return {vec4(raw.lo), vec4(raw.hi)};                                         \
  }                                                                              \
  inline uint4 load_words(const space uint* p) {                                 \
    return *reinterpret_cast<const space uint4*>(p);                             \
  }
#define MLXR_STORES(space)                                                       \
  template <typename T>                                                          \
  inline void store4(space T* p, vec4 v) {                                       \
    *reinterpret_cast<space vec<T, 4>*>(p) = vec<T, 4>(v);                       \
  }                                                                              \
  template <typename T>                                                          \
  inline void store8(space T* p, vec8 v) {                                       \
    packet<T> raw;                                                               \
    raw.lo = vec<T, 4>(v.lo);                                                    \
    raw.hi = vec<T, 4>(v.hi);                                                    \
    *reinterpret_cast<space packet<T>*>(p) = raw;                                \
  }
MLXR_LOADS(device)
MLXR_LOADS(constant)
MLXR_LOADS(threadgroup)
MLXR_STORES(device)
MLXR_STORES(threadgroup)
#undef MLXR_LOADS
#undef MLXR_STORES

// An input that the kernel writes in place (a KV pool); the launcher names it in `in_place`.
template <typename T>
inline device T* writable(const device T* p) {
  return const_cast<device T*>(p);
}

// begin matrices
template <typename T>
using matrix8x8 = simdgroup_matrix<T, 8, 8>;

// A lane holds two neighbours of a row. Apple documents no place for them; MLX's own kernels count on this one
// (mlx/backend/metal/kernels/steel/gemm/mma.h, BaseMMAFrag::get_coord), and a trial refuses a kernel that is wrong.
inline uint matrix_row(uint lane) { return lane / 16 * 4 + lane / 2 % 4; }
inline uint matrix_column(uint lane) { return lane / 8 % 2 * 4 + lane % 2 * 2; }
inline float matrix_row_max(float value) {
  value = max(value, simd_shuffle_xor(value, 1));
  return max(value, simd_shuffle_xor(value, 8));
}
inline float matrix_row_sum(float value) {
  value += simd_shuffle_xor(value, 1);
  return value + simd_shuffle_xor(value, 8);
}
template <typename T>
inline thread vec<T, 2>& mlxr_elements(thread matrix8x8<T>& m) {
  return reinterpret_cast<thread vec<T, 2>&>(m.thread_elements());
}
inline float matrix_get(thread matrix8x8<float>& m, uint i) {
  return i == 0 ? mlxr_elements(m).x : mlxr_elements(m).y;
}
inline void matrix_set(thread matrix8x8<float>& m, uint i, float value) {
  if (i == 0) mlxr_elements(m).x = value;
  else mlxr_elements(m).y = value;
}
inline void matrix_scale(thread matrix8x8<float>& m, float by) {
  mlxr_elements(m).x *= by;
  mlxr_elements(m).y *= by;
}
template <typename T>
inline void matrix_narrow(thread matrix8x8<T>& d, thread matrix8x8<float>& m) {
  mlxr_elements(d).x = from_float<T>(mlxr_elements(m).x);
  mlxr_elements(d).y = from_float<T>(mlxr_elements(m).y);
}
template <typename T>
inline float matrix_squares(thread matrix8x8<T>& m) {
  const float low = to_float(mlxr_elements(m).x), high = to_float(mlxr_elements(m).y);
  return fma(low, low, high * high);
}
template <typename T>
inline void matrix_weigh(thread matrix8x8<T>& m, thread matrix8x8<T>& by) {
  mlxr_elements(m).x = from_float<T>(to_float(mlxr_elements(m).x) * to_float(mlxr_elements(by).x));
  mlxr_elements(m).y = from_float<T>(to_float(mlxr_elements(m).y) * to_float(mlxr_elements(by).y));
}
template <typename T>
inline void matrix_fill(thread matrix8x8<T>& m, float value) {
  m = make_filled_simdgroup_matrix<T, 8, 8>(T(value));
}

#define MLXR_MATRICES(space)                                                                     \
  template <typename T>                                                                          \
  inline void matrix_load(thread matrix8x8<T>& m, const space T* p, uint stride) {               \
    simdgroup_load(m, p, stride);                                                                \
  }                                                                                              \
  template <typename T>                                                                          \
  inline void matrix_load_transposed(thread matrix8x8<T>& m, const space T* p, uint stride) {    \
    simdgroup_load(m, p, stride, ulong2(0, 0), true);                                            \
  }                                                                                              \
  template <typename T>                                                                          \
  inline void matrix_store(thread const matrix8x8<T>& m, space T* p, uint stride) {              \
    simdgroup_store(m, p, stride);                                                               \
  }                                                                                              \
  template <uint N, typename T>                                                                  \
  inline void matrix_load_wide(thread matrix8x8<T>* m, const space T* p, uint stride) {          \
    for (uint i = 0; i < N; ++i) simdgroup_load(m[i], p + 8 * i, stride);                        \
  }                                                                                              \
  template <uint N, typename T>                                                                  \
  inline void matrix_load_wide_transposed(thread matrix8x8<T>* m, const space T* p, uint stride) { \
    for (uint i = 0; i < N; ++i) simdgroup_load(m[i], p + 8 * i, stride, ulong2(0, 0), true);    \
  }                                                                                              \
  template <uint N, typename T>                                                                  \
  inline void matrix_read_wide(thread matrix8x8<T>* m, const space T* p, uint lane) {            \
    p += matrix_column(lane);                                                                    \
    for (uint i = 0; i < N; ++i) {                                                               \
      mlxr_elements(m[i]).x = p[8 * i];                                                          \
      mlxr_elements(m[i]).y = p[8 * i + 1];                                                      \
    }                                                                                            \
  }                                                                                              \
  template <uint N, typename T>                                                                  \
  inline void matrix_load_right(thread matrix8x8<T>* m, const space T* p, uint stride) {         \
    for (uint i = 0; i < N; ++i) simdgroup_load(m[i], p + 8 * i, stride);                        \
  }                                                                                              \
  template <uint N, typename T>                                                                  \
  inline void matrix_write_right(thread matrix8x8<float>* m, space T* p, uint lane) {            \
    p += matrix_column(lane);                                                                    \
    for (uint i = 0; i < N; ++i) {                                                               \
      p[8 * i] = from_float<T>(mlxr_elements(m[i]).x);                                           \
      p[8 * i + 1] = from_float<T>(mlxr_elements(m[i]).y);                                       \
    }                                                                                            \
  }
MLXR_MATRICES(device)
MLXR_MATRICES(threadgroup)
#undef MLXR_MATRICES

// d += a · b
template <typename T>
inline void matrix_multiply_accumulate(
    thread matrix8x8<float>& d, thread const matrix8x8<T>& a, thread const matrix8x8<T>& b) {
  simdgroup_multiply_accumulate(d, a, b, d);
}

// d[0] += upper[0] · b[0] + upper[1] · b[apart], and d[next] of lower
template <typename T>
inline void matrix_multiply_two(
    thread matrix8x8<float>* d, uint next, thread const matrix8x8<T>* upper, thread const matrix8x8<T>* lower,
    thread const matrix8x8<T>* b, uint apart) {
  for (uint i = 0; i < 2; ++i) {
    simdgroup_multiply_accumulate(d[0], upper[i], b[i * apart], d[0]);
    simdgroup_multiply_accumulate(d[next], lower[i], b[i * apart], d[next]);
  }
}
// end matrices
