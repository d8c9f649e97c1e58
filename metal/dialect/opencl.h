// The dialect for clang's OpenCL C++, which only checks: it knows address spaces, and refuses what Metal refuses.
// Nothing is ever run, so functions are declared and most have no body.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define device __global
#define constant __constant
#define threadgroup __local
#define thread __private
#define helper inline
#define threadgroup_array(T, name, count) alignas(16) __local T name[count]
#define matrix_load_wide_transposed_once matrix_load_wide_transposed

// A scalar, so that it can be read from any address space; scoped, so that nothing can be computed in it.
enum class mlxr_bfloat : ushort {};

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
mem_flags operator|(mem_flags a, mem_flags b);
void threadgroup_barrier(mem_flags flags);
void simdgroup_barrier(mem_flags flags);
bool simd_any(bool value);

#define MLXR_SIMD(V)                        \
  V simd_sum(V value);                      \
  V simd_max(V value);                      \
  V simd_shuffle(V value, uint lane);       \
  V simd_broadcast(V value, uint lane);     \
  V simd_shuffle_xor(V value, uint mask);   \
  V simd_shuffle_down(V value, uint delta);
MLXR_SIMD(float)
MLXR_SIMD(int)
MLXR_SIMD(uint)
#undef MLXR_SIMD

typedef float4 vec4;
typedef float8 vec8;  // has .lo and .hi; a struct could not be copied, as there is no generic address space
vec4 make_vec4(float x, float y, float z, float w);
vec4 make_vec4(float every);

// `as_float` is OpenCL's own.
float half_to_float(uint bits);
float to_float(float value);
float to_float(half value);
float to_float(mlxr_bfloat value);
float to_float(int value);
float to_float(uint value);
template <typename T>
T from_float(float value);

// Its elements are not looked at here, and structs cannot be copied.
template <typename T>
using packet = float8;
vec8 unpack8(float8 raw);

#define MLXR_LOADS(space)                  \
  template <typename T>                    \
  vec4 load4(const space T* p);            \
  template <typename T>                    \
  packet<T> load_packet(const space T* p); \
  template <typename T>                    \
  vec8 load8(const space T* p);            \
  uint4 load_words(const space uint* p);
#define MLXR_STORES(space)              \
  template <typename T>                 \
  void store4(space T* p, vec4 v);      \
  template <typename T>                 \
  void store8(space T* p, vec8 v);
MLXR_LOADS(device)
MLXR_LOADS(constant)
MLXR_LOADS(threadgroup)
MLXR_STORES(device)
MLXR_STORES(threadgroup)
#undef MLXR_LOADS
#undef MLXR_STORES

template <typename T>
device T* writable(const device T* p);

template <typename T>
struct matrix8x8 {
  T pair[2];
};
uint matrix_row(uint lane);
uint matrix_column(uint lane);
float matrix_row_max(float value);
float matrix_row_sum(float value);
float matrix_get(thread matrix8x8<float>& m, uint i);
void matrix_set(thread matrix8x8<float>& m, uint i, float value);
void matrix_scale(thread matrix8x8<float>& m, float by);
template <typename T>
void matrix_narrow(thread matrix8x8<T>& d, thread matrix8x8<float>& m);
template <typename T>
float matrix_squares(thread matrix8x8<T>& m);
template <typename T>
void matrix_weigh(thread matrix8x8<T>& m, thread matrix8x8<T>& by);
template <typename T>
void matrix_fill(thread matrix8x8<T>& m, float value);
#define MLXR_MATRICES(space)                                                               \
  template <typename T>                                                                    \
  void matrix_load(thread matrix8x8<T>& m, const space T* p, uint stride);                 \
  template <typename T>                                                                    \
  void matrix_load_transposed(thread matrix8x8<T>& m, const space T* p, uint stride);      \
  template <uint N, typename T>                                                            \
  void matrix_load_wide(thread matrix8x8<T>* m, const space T* p, uint stride);            \
  template <uint N, typename T>                                                            \
  void matrix_load_wide_transposed(thread matrix8x8<T>* m, const space T* p, uint stride); \
  template <uint N, typename T>                                                            \
  void matrix_read_wide(thread matrix8x8<T>* m, const space T* p, uint lane);              \
  template <uint N, typename T>                                                            \
  void matrix_load_right(thread matrix8x8<T>* m, const space T* p, uint stride);           \
  template <uint N, typename T>                                                            \
  void matrix_write_right(thread matrix8x8<float>* m, space T* p, uint lane);              \
  template <typename T>                                                                    \
  void matrix_store(thread const matrix8x8<T>& m, space T* p, uint stride);
MLXR_MATRICES(device)
MLXR_MATRICES(threadgroup)
#undef MLXR_MATRICES
template <typename T>
void matrix_multiply_two(
    thread matrix8x8<float>* d, uint next, thread const matrix8x8<T>* upper, thread const matrix8x8<T>* lower,
    thread const matrix8x8<T>* b, uint apart);
template <typename T>
void matrix_multiply_accumulate(
    thread matrix8x8<float>& d, thread const matrix8x8<T>& a, thread const matrix8x8<T>& b);
