// Declares, for clang's OpenCL C++, as much of Metal's standard library as metal/dialect/metal.h and kernels use, with
// the signatures of the Metal Shading Language Specification. It finds misspellings and misuse, not wrong meaning.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define device __global
#define constant __constant
#define threadgroup __local
#define thread __private

struct bfloat {
  ushort bits;
  bfloat() = default;
  explicit bfloat(float value);
  explicit operator float() const;
};

template <typename T, int N>
struct vec {
  T x, y, z, w;
  vec() = default;
  explicit vec(T every);
  vec(T x, T y, T z, T w);
  template <typename U>
  explicit vec(const vec<U, N>& other);
};
#define float4 vec<float, 4>
float4 operator+(float4 a, float4 b);
float4 operator-(float4 a, float4 b);
float4 operator*(float4 a, float4 b);
float4 operator*(float4 a, float b);
float4 operator*(float a, float4 b);
float4 operator+=(thread float4& a, float4 b);
float4 operator*=(thread float4& a, float b);
float dot(float4 a, float4 b);
float fma(float a, float b, float c);
float4 fma(float4 a, float4 b, float4 c);
float abs(float x);

#undef as_float
template <typename To, typename From>
To as_type(From value);

struct mlxr_ulong2 {
  mlxr_ulong2(ulong x, ulong y);
};
#define ulong2 mlxr_ulong2

template <typename T, int Columns, int Rows>
struct simdgroup_matrix {
  T held[2];
  thread T (&thread_elements() thread)[2];
};
template <typename T, int Columns, int Rows>
simdgroup_matrix<T, Columns, Rows> make_filled_simdgroup_matrix(T value);
#define STUB_MATRICES(space)                                                                           \
  template <typename T>                                                                                \
  void simdgroup_load(thread simdgroup_matrix<T, 8, 8>& d, const space T* source, ulong stride = 8,    \
                      ulong2 origin = ulong2(0, 0), bool transpose = false);                           \
  template <typename T>                                                                                \
  void simdgroup_store(thread const simdgroup_matrix<T, 8, 8>& a, space T* target, ulong stride = 8,   \
                       ulong2 origin = ulong2(0, 0), bool transpose = false);
STUB_MATRICES(device)
STUB_MATRICES(threadgroup)
template <typename D, typename A, typename B, typename C>
void simdgroup_multiply_accumulate(
    thread simdgroup_matrix<D, 8, 8>& d, thread const simdgroup_matrix<A, 8, 8>& a,
    thread const simdgroup_matrix<B, 8, 8>& b, thread const simdgroup_matrix<C, 8, 8>& c);

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
mem_flags operator|(mem_flags a, mem_flags b);
void threadgroup_barrier(mem_flags flags);
void simdgroup_barrier(mem_flags flags);
bool simd_any(bool value);
#define STUB_SIMD(V)                          \
  V simd_sum(V value);                        \
  V simd_max(V value);                        \
  V simd_shuffle(V value, ushort lane);       \
  V simd_broadcast(V value, ushort lane);     \
  V simd_shuffle_xor(V value, ushort mask);   \
  V simd_shuffle_down(V value, ushort delta);
STUB_SIMD(float)
STUB_SIMD(int)
STUB_SIMD(uint)
