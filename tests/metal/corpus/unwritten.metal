// Reads threadgroup memory that nobody wrote.
#pragma body
const uint i = thread_index_in_threadgroup;
threadgroup_array(float, shared, 64);
if (i < 63) shared[i] = x[i];
threadgroup_barrier(mem_flags::mem_threadgroup);
y[i] = shared[i];
