// y = weight · h / sqrt(mean(h²) + EPSILON), where h is x, or with RESIDUAL x + residual, which is `total` as well.
//
// One threadgroup per row of WIDTH elements; every row is read once and kept in registers (VECTORS chunks a thread).
// CHUNK is 4 where WIDTH is a multiple of 4, so that each access is one vector, and 1 otherwise.
#if CHUNK == 4
typedef vec4 chunk;
#define load_chunk load4
#define store_chunk store4
helper float squared(chunk v) { return dot(v, v); }
template <typename T>
helper chunk rounded(chunk v) {
  return make_vec4(to_float(from_float<T>(v.x)), to_float(from_float<T>(v.y)), to_float(from_float<T>(v.z)),
                   to_float(from_float<T>(v.w)));
}
#else
typedef float chunk;
#define load_chunk(p) to_float(*(p))
#define store_chunk(p, v) *(p) = from_float<T>(v)
helper float squared(chunk v) { return v * v; }
template <typename T>
helper chunk rounded(chunk v) {
  return to_float(from_float<T>(v));
}
#endif

#pragma body
threadgroup_array(float, partial, SIMDGROUPS);

const uint index = thread_index_in_threadgroup;
const size_t row = size_t(threadgroup_position_in_grid.x) * WIDTH;

chunk held[VECTORS];
float squares = 0.0f;
#pragma unroll
for (uint i = 0; i < VECTORS; ++i) {
  const uint at = (i * SIMDGROUPS * 32 + index) * CHUNK;
  if (at < WIDTH) {
    held[i] = load_chunk(x + row + at);
#if RESIDUAL
    // The sum that later layers see has been rounded to T, so the norm is taken of that.
    held[i] = rounded<T>(held[i] + load_chunk(residual + row + at));
    store_chunk(total + row + at, held[i]);
#endif
    squares += squared(held[i]);
  }
}

squares = simd_sum(squares);
if (thread_index_in_simdgroup == 0) partial[simdgroup_index_in_threadgroup] = squares;
threadgroup_barrier(mem_flags::mem_threadgroup);
squares = simd_sum(thread_index_in_simdgroup < SIMDGROUPS ? partial[thread_index_in_simdgroup] : 0.0f);

const float scale = rsqrt(squares / float(WIDTH) + EPSILON);
#pragma unroll
for (uint i = 0; i < VECTORS; ++i) {
  const uint at = (i * SIMDGROUPS * 32 + index) * CHUNK;
  if (at < WIDTH) store_chunk(y + row + at, held[i] * scale * load_chunk(weight + at));
}
