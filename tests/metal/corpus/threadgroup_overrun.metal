// One element past a threadgroup array.
#pragma body
const uint i = thread_index_in_threadgroup;
threadgroup_array(float, shared, 64);
shared[i] = x[i];
threadgroup_barrier(mem_flags::mem_threadgroup);
threadgroup float* const next = shared + 1;
y[i] = next[i];
