// A matrix that begins at an odd element.
#pragma body
const uint i = thread_index_in_threadgroup;
matrix8x8<float> m;
if (simdgroup_index_in_threadgroup == 0) matrix_load(m, x + 1, 8);
y[i] = x[i];
