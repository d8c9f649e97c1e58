// A thread leaves before the barrier that the others wait at.
#pragma body
const uint i = thread_index_in_threadgroup;
if (i == 3) return;
threadgroup_barrier(mem_flags::mem_threadgroup);
y[i] = x[i];
