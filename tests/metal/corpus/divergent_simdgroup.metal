// Half of a simdgroup sums.
#pragma body
const uint i = thread_index_in_threadgroup;
float sum = x[i];
if (thread_index_in_simdgroup < 16) sum = simd_sum(sum);
y[i] = sum;
