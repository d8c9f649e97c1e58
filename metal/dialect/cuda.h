// The dialect for NVIDIA GPUs: mx.fast.cuda_kernel puts cuda_fp16.h, cuda_bf16.h and cooperative_groups.h before
// this text. CUDA has one address space for C++ pointers: metal/dialect takes Metal's four qualifiers out of kernels.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;

#define helper __device__ __forceinline__
#define threadgroup_array(T, name, count) __shared__ __align__(16) T name[count]

// Positions are macros: Metal passes them as arguments of the kernel, CUDA as built-in variables.
helper uint mlxr_thread_index() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
helper uint3 mlxr_uint3(uint x, uint y, uint z) { return make_uint3(x, y, z); }
#define thread_position_in_threadgroup mlxr_uint3(threadIdx.x, threadIdx.y, threadIdx.z)
#define threadgroup_position_in_grid mlxr_uint3(blockIdx.x, blockIdx.y, blockIdx.z)
#define threads_per_threadgroup mlxr_uint3(blockDim.x, blockDim.y, blockDim.z)
#define threadgroups_per_grid mlxr_uint3(gridDim.x, gridDim.y, gridDim.z)
#define thread_position_in_grid                                                            \
  mlxr_uint3(blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y, \
             blockIdx.z * blockDim.z + threadIdx.z)
#define thread_index_in_threadgroup mlxr_thread_index()
#define thread_index_in_simdgroup (mlxr_thread_index() & 31u)
#define simdgroup_index_in_threadgroup (mlxr_thread_index() >> 5)
#define simdgroups_per_threadgroup ((blockDim.x * blockDim.y * blockDim.z) >> 5)

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
helper mem_flags operator|(mem_flags a, mem_flags b) {
  return static_cast<mem_flags>(static_cast<int>(a) | static_cast<int>(b));
}
helper void threadgroup_barrier(mem_flags) { __syncthreads(); }
helper void simdgroup_barrier(mem_flags) { __syncwarp(); }

// Every lane takes part: the dialect forbids a simdgroup operation under divergence.
template <typename V>
helper V simd_shuffle(V value, uint lane) {
  return __shfl_sync(0xffffffffu, value, static_cast<int>(lane));
}
template <typename V>
helper V simd_broadcast(V value, uint lane) {
  return __shfl_sync(0xffffffffu, value, static_cast<int>(lane));
}
template <typename V>
helper V simd_shuffle_xor(V value, uint mask) {
  return __shfl_xor_sync(0xffffffffu, value, static_cast<int>(mask));
}
template <typename V>
helper V simd_shuffle_down(V value, uint delta) {
  return __shfl_down_sync(0xffffffffu, value, delta);
}
helper bool simd_any(bool value) { return __any_sync(0xffffffffu, value) != 0; }
template <typename V>
helper V simd_sum(V value) {
  for (uint mask = 16; mask > 0; mask >>= 1) value += simd_shuffle_xor(value, mask);
  return value;
}
template <typename V>
helper V simd_max(V value) {
  for (uint mask = 16; mask > 0; mask >>= 1) {
    const V other = simd_shuffle_xor(value, mask);
    value = value > other ? value : other;
  }
  return value;
}

struct alignas(16) vec4 {
  float x, y, z, w;
};
#include "vec4.h"

// In place of CUDA's own, which takes four instructions so that also what is below 2^-126 is right; here that is 0.
helper float mlxr_exp2(float x) {
  float value;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
}
#define exp2 mlxr_exp2

helper float as_float(uint bits) { return __uint_as_float(bits); }
helper float half_to_float(uint bits) { return __half2float(__ushort_as_half(static_cast<ushort>(bits))); }

helper float to_float(float value) { return value; }
helper float to_float(__half value) { return __half2float(value); }
helper float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
helper float to_float(int value) { return static_cast<float>(value); }
helper float to_float(uint value) { return static_cast<float>(value); }

template <typename T>
struct mlxr_narrow;
template <>
struct mlxr_narrow<float> {
  static helper float round(float value) { return value; }
};
template <>
struct mlxr_narrow<__half> {
  static helper __half round(float value) { return __float2half_rn(value); }
};
template <>
struct mlxr_narrow<__nv_bfloat16> {
  static helper __nv_bfloat16 round(float value) { return __float2bfloat16_rn(value); }
};
template <typename T>
helper T from_float(float value) {
  return mlxr_narrow<T>::round(value);
}

// Two 16-bit values travel as one 32-bit word, so that a vector access is a single instruction.
template <typename T>
helper float mlxr_low(uint word) {
  return to_float(*reinterpret_cast<const T*>(&word));
}
template <typename T>
helper float mlxr_high(uint word) {
  return to_float(reinterpret_cast<const T*>(&word)[1]);
}
template <typename T>
helper uint mlxr_pack(float low, float high) {
  uint word;
  reinterpret_cast<T*>(&word)[0] = from_float<T>(low);
  reinterpret_cast<T*>(&word)[1] = from_float<T>(high);
  return word;
}

helper vec4 load4(const float* p) {
  const float4 v = *reinterpret_cast<const float4*>(p);
  return make_vec4(v.x, v.y, v.z, v.w);
}
template <typename T>
helper vec4 load4(const T* p) {
  const uint2 v = *reinterpret_cast<const uint2*>(p);
  return make_vec4(mlxr_low<T>(v.x), mlxr_high<T>(v.x), mlxr_low<T>(v.y), mlxr_high<T>(v.y));
}
template <typename T>
struct packet {
  uint4 raw;
};
template <>
struct packet<float> {
  vec4 lo, hi;
};
helper packet<float> load_packet(const float* p) { return {load4(p), load4(p + 4)}; }
template <typename T>
helper packet<T> load_packet(const T* p) {
  return {*reinterpret_cast<const uint4*>(p)};
}
helper vec8 unpack8(packet<float> v) { return {v.lo, v.hi}; }
template <typename T>
helper vec8 unpack8(packet<T> v) {
  return {make_vec4(mlxr_low<T>(v.raw.x), mlxr_high<T>(v.raw.x), mlxr_low<T>(v.raw.y), mlxr_high<T>(v.raw.y)),
          make_vec4(mlxr_low<T>(v.raw.z), mlxr_high<T>(v.raw.z), mlxr_low<T>(v.raw.w), mlxr_high<T>(v.raw.w))};
}
template <typename T>
helper vec8 load8(const T* p) {
  return unpack8(load_packet(p));
}
helper uint4 load_words(const uint* p) { return *reinterpret_cast<const uint4*>(p); }

helper void store4(float* p, vec4 v) { *reinterpret_cast<float4*>(p) = make_float4(v.x, v.y, v.z, v.w); }
template <typename T>
helper void store4(T* p, vec4 v) {
  *reinterpret_cast<uint2*>(p) = make_uint2(mlxr_pack<T>(v.x, v.y), mlxr_pack<T>(v.z, v.w));
}
helper void store8(float* p, vec8 v) {
  store4(p, v.lo);
  store4(p + 4, v.hi);
}
template <typename T>
helper void store8(T* p, vec8 v) {
  *reinterpret_cast<uint4*>(p) = make_uint4(mlxr_pack<T>(v.lo.x, v.lo.y), mlxr_pack<T>(v.lo.z, v.lo.w),
                                            mlxr_pack<T>(v.hi.x, v.hi.y), mlxr_pack<T>(v.hi.z, v.hi.w));
}

template <typename T>
helper T* writable(const T* p) {
  return const_cast<T*>(p);
}

// begin matrices
// Lane l of a simdgroup holds row l / 4, columns 2 (l % 4) and the next, of an 8×8 matrix.
helper uint matrix_row(uint lane) { return lane / 4; }
helper uint matrix_column(uint lane) { return lane % 4 * 2; }
helper float matrix_row_max(float value) {
  value = fmaxf(value, simd_shuffle_xor(value, 1));
  return fmaxf(value, simd_shuffle_xor(value, 2));
}
helper float matrix_row_sum(float value) {
  value += simd_shuffle_xor(value, 1);
  return value + simd_shuffle_xor(value, 2);
}
template <typename T>
struct matrix8x8 {
  float pair[2];
};
helper float matrix_get(const matrix8x8<float>& m, uint i) { return m.pair[i]; }
helper void matrix_set(matrix8x8<float>& m, uint i, float value) { m.pair[i] = value; }
helper void matrix_scale(matrix8x8<float>& m, float by) {
  m.pair[0] *= by;
  m.pair[1] *= by;
}
helper float matrix_squares(const matrix8x8<float>& m) { return fmaf(m.pair[0], m.pair[0], m.pair[1] * m.pair[1]); }
helper void matrix_weigh(matrix8x8<float>& m, const matrix8x8<float>& by) {
  m.pair[0] *= by.pair[0];
  m.pair[1] *= by.pair[1];
}
helper void matrix_narrow(matrix8x8<float>& d, const matrix8x8<float>& m) { d = m; }
helper void matrix_fill(matrix8x8<float>& m, float value) { m.pair[0] = m.pair[1] = value; }
helper void matrix_load(matrix8x8<float>& m, const float* p, uint stride) {
  const uint lane = thread_index_in_simdgroup;
  p += lane / 4 * stride + lane % 4 * 2;
  m.pair[0] = p[0];
  m.pair[1] = p[1];
}
helper void matrix_load_transposed(matrix8x8<float>& m, const float* p, uint stride) {
  const uint lane = thread_index_in_simdgroup;
  p += lane % 4 * 2 * stride + lane / 4;
  m.pair[0] = p[0];
  m.pair[1] = p[stride];
}
helper void matrix_store(const matrix8x8<float>& m, float* p, uint stride) {
  const uint lane = thread_index_in_simdgroup;
  p += lane / 4 * stride + lane % 4 * 2;
  p[0] = m.pair[0];
  p[1] = m.pair[1];
}
helper void matrix_multiply_accumulate(
    matrix8x8<float>& d, const matrix8x8<float>& a, const matrix8x8<float>& b) {
  const uint lane = thread_index_in_simdgroup, row = lane / 4;
#pragma unroll
  for (uint k = 0; k < 8; ++k) {
    const float left = simd_shuffle(a.pair[k % 2], row * 4 + k / 2);
    const float right0 = simd_shuffle(b.pair[0], k * 4 + lane % 4);
    const float right1 = simd_shuffle(b.pair[1], k * 4 + lane % 4);
    d.pair[0] = fmaf(left, right0, d.pair[0]);
    d.pair[1] = fmaf(left, right1, d.pair[1]);
  }
}

// N matrices, 8 N columns: lane l has columns 2 N (l % 4) and the next of row l / 4, two of them for each matrix.
template <uint N>
helper void matrix_read_wide(matrix8x8<float>* m, const float* p, uint lane) {
#pragma unroll
  for (uint i = 0; i < N; ++i)
#pragma unroll
    for (uint e = 0; e < 2; ++e) m[i].pair[e] = p[lane % 4 * 2 * N + 2 * i + e];
}
template <uint N>
helper void matrix_load_wide_transposed(matrix8x8<float>* m, const float* p, uint stride) {
  const uint lane = thread_index_in_simdgroup, k = lane / 8 * 2 * N + lane / 4 % 2;
#pragma unroll
  for (uint i = 0; i < N; ++i)
#pragma unroll
    for (uint e = 0; e < 2; ++e) m[i].pair[e] = p[(lane % 4 * 2 + e) * stride + 2 * i + k];
}
// N right matrices: column c of matrix i is N c + i.
template <uint N>
helper void matrix_load_right(matrix8x8<float>* m, const float* p, uint stride) {
  const uint lane = thread_index_in_simdgroup;
#pragma unroll
  for (uint i = 0; i < N; ++i)
#pragma unroll
    for (uint e = 0; e < 2; ++e) m[i].pair[e] = p[lane / 4 * stride + (lane % 4 * 2 + e) * N + i];
}
template <uint N, typename T>
helper void matrix_write_right(const matrix8x8<float>* m, T* p, uint lane) {
  p += lane % 4 * 2 * N;
#pragma unroll
  for (uint e = 0; e < 2; ++e) {
    if (N % 4 == 0) {
#pragma unroll
      for (uint i = 0; i + 3 < N; i += 4)
        store4(p + e * N + i, make_vec4(m[i].pair[e], m[i + 1].pair[e], m[i + 2].pair[e], m[i + 3].pair[e]));
    } else {
#pragma unroll
      for (uint i = 0; i < N; ++i) p[e * N + i] = from_float<T>(m[i].pair[e]);
    }
  }
}
helper void matrix_multiply_two(matrix8x8<float>* d, uint next, const matrix8x8<float>* upper,
                                const matrix8x8<float>* lower, const matrix8x8<float>* b, uint apart) {
#pragma unroll
  for (uint i = 0; i < 2; ++i) {
    matrix_multiply_accumulate(d[0], upper[i], b[i * apart]);
    matrix_multiply_accumulate(d[next], lower[i], b[i * apart]);
  }
}

// 16-bit matrices are for tensor cores, which take the left one as above and the right one transposed: both are kept,
// and what nobody asks for is not computed. Half of m16n8k8 is zeros (PTX ISA, "Matrix multiply-accumulate operation").
struct mlxr_words {
  uint pair, turned;
};
template <>
struct matrix8x8<__half> : mlxr_words {};
template <>
struct matrix8x8<__nv_bfloat16> : mlxr_words {};
helper uint mlxr_turned(uint word) {
  uint turned;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(word));
  return turned;
}
template <typename T>
helper float matrix_squares(const matrix8x8<T>& m) {
  const float low = mlxr_low<T>(m.pair), high = mlxr_high<T>(m.pair);
  return fmaf(low, low, high * high);
}
// The product of two 16-bit numbers is a float, so that one rounding makes what the device's own product of pairs is.
helper uint mlxr_products(uint a, uint b, const __half*) {
  const __half2 made = __hmul2_rn(*reinterpret_cast<const __half2*>(&a), *reinterpret_cast<const __half2*>(&b));
  return *reinterpret_cast<const uint*>(&made);
}
helper uint mlxr_products(uint a, uint b, const __nv_bfloat16*) {
  const __nv_bfloat162 made =
      __hmul2_rn(*reinterpret_cast<const __nv_bfloat162*>(&a), *reinterpret_cast<const __nv_bfloat162*>(&b));
  return *reinterpret_cast<const uint*>(&made);
}
template <typename T>
helper void matrix_weigh(matrix8x8<T>& m, const matrix8x8<T>& by) {
  const T* form = nullptr;
  m.pair = mlxr_products(m.pair, by.pair, form);
  m.turned = mlxr_turned(m.pair);
}
template <typename T>
helper uint* mlxr_word(const T* p, uint stride) {
  const uint lane = thread_index_in_simdgroup;
  return reinterpret_cast<uint*>(writable(p) + lane / 4 * stride + lane % 4 * 2);
}
template <typename T>
helper void matrix_fill(matrix8x8<T>& m, float value) {
  m.pair = m.turned = mlxr_pack<T>(value, value);
}
template <typename T>
helper void matrix_load(matrix8x8<T>& m, const T* p, uint stride) {
  m.pair = *mlxr_word(p, stride);
  m.turned = mlxr_turned(m.pair);
}
template <typename T>
helper void matrix_load_transposed(matrix8x8<T>& m, const T* p, uint stride) {
  m.turned = *mlxr_word(p, stride);
  m.pair = mlxr_turned(m.turned);
}
template <typename T>
helper void matrix_store(const matrix8x8<T>& m, T* p, uint stride) {
  *mlxr_word(p, stride) = m.pair;
}
template <typename T>
helper void matrix_narrow(matrix8x8<T>& d, const matrix8x8<float>& m) {
  d.pair = mlxr_pack<T>(m.pair[0], m.pair[1]);
  d.turned = mlxr_turned(d.pair);
}
template <uint N>
struct mlxr_access;
template <>
struct mlxr_access<2> {
  uint2 words;
};
template <>
struct mlxr_access<4> {
  uint4 words;
};
template <uint N>
union mlxr_words_of {
  mlxr_access<N> access;
  uint each[N];
};
template <uint N, typename T>
helper void matrix_read_wide(matrix8x8<T>* m, const T* p, uint lane) {
  mlxr_words_of<N> words;
  words.access = *reinterpret_cast<const mlxr_access<N>*>(p + lane % 4 * (2 * N));
#pragma unroll
  for (uint i = 0; i < N; ++i) {
    m[i].pair = words.each[i];
    m[i].turned = mlxr_turned(words.each[i]);
  }
}
template <uint N, typename T>
helper void matrix_load_wide(matrix8x8<T>* m, const T* p, uint stride) {
  const uint lane = thread_index_in_simdgroup;
  matrix_read_wide<N>(m, p + lane / 4 * size_t(stride), lane);
}
template <uint N, typename T>
helper void matrix_load_wide_transposed(matrix8x8<T>* m, const T* p, uint stride) {
  const uint lane = thread_index_in_simdgroup;
  mlxr_words_of<N> words;
  words.access = *reinterpret_cast<const mlxr_access<N>*>(p + lane / 4 * size_t(stride) + lane % 4 * (2 * N));
#pragma unroll
  for (uint i = 0; i < N; ++i) {
    m[i].turned = words.each[i];
    m[i].pair = mlxr_turned(words.each[i]);
  }
}
// What is read once makes room in the second-level cache first (PTX ISA, "createpolicy"), so that what all layers read stays
// there: a layer's weights alone are more than it holds.
helper mlxr_access<2> mlxr_read_once(const mlxr_access<2>* p) { return *p; }
helper mlxr_access<4> mlxr_read_once(const mlxr_access<4>* p) {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  uint4 v;
  asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p), "l"(policy));
  return {v};
}
template <uint N>
helper void matrix_load_wide_transposed_once(matrix8x8<float>* m, const float* p, uint stride) {
  matrix_load_wide_transposed<N>(m, p, stride);
}
template <uint N, typename T>
helper void matrix_load_wide_transposed_once(matrix8x8<T>* m, const T* p, uint stride) {
  const uint lane = thread_index_in_simdgroup;
  mlxr_words_of<N> words;
  words.access = mlxr_read_once(reinterpret_cast<const mlxr_access<N>*>(p + lane / 4 * size_t(stride) + lane % 4 * (2 * N)));
#pragma unroll
  for (uint i = 0; i < N; ++i) {
    m[i].turned = words.each[i];
    m[i].pair = mlxr_turned(words.each[i]);
  }
}
// A lane has N columns of two rows, which are turned by joining their halves: `movmatrix` is slow.
template <>
struct mlxr_access<1> {
  uint words;
};
template <uint N, typename T>
helper void matrix_load_right(matrix8x8<T>* m, const T* p, uint stride) {
  const uint lane = thread_index_in_simdgroup;
  p += lane % 4 * 2 * size_t(stride) + lane / 4 * N;
  mlxr_words_of<N / 2> upper, lower;
  upper.access = *reinterpret_cast<const mlxr_access<N / 2>*>(p);
  lower.access = *reinterpret_cast<const mlxr_access<N / 2>*>(p + stride);
#pragma unroll
  for (uint i = 0; i < N; ++i) {
    m[i].turned = __byte_perm(upper.each[i / 2], lower.each[i / 2], i % 2 == 0 ? 0x5410 : 0x7632);
    m[i].pair = mlxr_turned(m[i].turned);
  }
}
#define MLXR_MULTIPLY(type, name)                                                                         \
  helper void matrix_multiply_accumulate(                                                                 \
      matrix8x8<float>& d, const matrix8x8<type>& a, const matrix8x8<type>& b) {                          \
    float below[2] = {0.0f, 0.0f};                                                                        \
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32." name "." name ".f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "   \
        "{%0, %1, %2, %3};"                                                                               \
        : "+f"(d.pair[0]), "+f"(d.pair[1]), "+f"(below[0]), "+f"(below[1])                                \
        : "r"(a.pair), "r"(0u), "r"(b.turned));                                                           \
  }
MLXR_MULTIPLY(__half, "f16")
MLXR_MULTIPLY(__nv_bfloat16, "bf16")
#undef MLXR_MULTIPLY
// Two rows of matrices times two of a column fill m16n8k16.
#define MLXR_MULTIPLY_TWO(type, name)                                                                     \
  helper void matrix_multiply_two(matrix8x8<float>* d, uint next, const matrix8x8<type>* upper,           \
                                  const matrix8x8<type>* lower, const matrix8x8<type>* b, uint apart) {   \
    float* above = d[0].pair;                                                                             \
    float* below = d[next].pair;                                                                          \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 {%0, %1, %2, %3}, "        \
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                                   \
        : "+f"(above[0]), "+f"(above[1]), "+f"(below[0]), "+f"(below[1])                                  \
        : "r"(upper[0].pair), "r"(lower[0].pair), "r"(upper[1].pair), "r"(lower[1].pair),                 \
          "r"(b[0].turned), "r"(b[apart].turned));                                                        \
  }
MLXR_MULTIPLY_TWO(__half, "f16")
MLXR_MULTIPLY_TWO(__nv_bfloat16, "bf16")
#undef MLXR_MULTIPLY_TWO
// end matrices
