// A matrix whose rows begin at odd elements: nobody could load two of them at once.
#pragma body
const uint i = thread_index_in_threadgroup;
matrix8x8<float> m;
if (simdgroup_index_in_threadgroup == 0) matrix_load(m, x, 7);
y[i] = x[i];
