// One array of more than 32 KB.
#pragma body
const uint i = thread_index_in_threadgroup;
threadgroup_array(float, shared, 8193);
shared[i] = x[i];
y[i] = shared[i];
