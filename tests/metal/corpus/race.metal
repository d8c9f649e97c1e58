// Two threads write one element of threadgroup memory.
#pragma body
const uint i = thread_index_in_threadgroup;
threadgroup_array(float, shared, 64);
shared[i / 2] = x[i];
threadgroup_barrier(mem_flags::mem_threadgroup);
y[i] = shared[i / 2];
