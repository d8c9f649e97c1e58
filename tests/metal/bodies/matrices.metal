// d = a · b + a · cᵀ for 8×8 tiles: one simdgroup a tile, a from threadgroup memory, b and c from device memory.
#pragma body
threadgroup_array(T, tile, 2 * 64);
const uint lane = thread_index_in_simdgroup, group = simdgroup_index_in_threadgroup;
for (uint e = lane; e < 64; e += 32) tile[64 * group + e] = a[64 * group + e];
simdgroup_barrier(mem_flags::mem_threadgroup);
matrix8x8<T> left, right;
matrix8x8<float> sum;
matrix_fill(sum, 0.0f);
matrix_load(left, tile + 64 * group, 8);
matrix_load(right, b + 64 * group, 8);
matrix_multiply_accumulate(sum, left, right);
matrix_load_transposed(right, c + 64 * group, 8);
matrix_multiply_accumulate(sum, left, right);
matrix_store(sum, d + 64 * group, 8);
