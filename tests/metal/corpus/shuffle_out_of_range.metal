// There is no lane 32.
#pragma body
const uint i = thread_index_in_threadgroup;
y[i] = simd_shuffle(x[i], thread_index_in_simdgroup + 1);
