// A thread reads what its neighbour in another simdgroup may not have replaced yet.
#pragma body
const uint i = thread_index_in_threadgroup;
threadgroup_array(float, shared, 64);
shared[i] = 0.0f;
threadgroup_barrier(mem_flags::mem_threadgroup);
shared[i] = x[i];
y[i] = shared[63 - i];
