// Some lanes stand at a barrier, the others at a simdgroup operation.
#pragma body
const uint i = thread_index_in_threadgroup;
float sum = x[i];
if (thread_index_in_simdgroup < 16) sum = simd_sum(sum);
threadgroup_barrier(mem_flags::mem_threadgroup);
y[i] = sum;
