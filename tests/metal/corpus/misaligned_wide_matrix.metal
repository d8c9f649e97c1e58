// Four matrices that begin at no whole 16 bytes.
#pragma body
const uint i = thread_index_in_threadgroup;
matrix8x8<float> m[4];
if (simdgroup_index_in_threadgroup == 0) matrix_load_wide<4>(m, x + 2, 32);
y[i] = x[i];
