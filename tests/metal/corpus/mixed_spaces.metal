// A device pointer set from threadgroup memory.
#pragma body
const uint i = thread_index_in_threadgroup;
threadgroup_array(float, shared, 64);
const device float* p = shared;
y[i] = p[i];
