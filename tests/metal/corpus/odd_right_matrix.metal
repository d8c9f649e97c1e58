// Four right matrices whose rows begin at no whole 16 bytes.
#pragma body
const uint i = thread_index_in_threadgroup;
matrix8x8<float> m[4];
if (simdgroup_index_in_threadgroup == 0) matrix_load_right<4>(m, x, 34);
y[i] = x[i];
