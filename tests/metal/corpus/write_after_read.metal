// The second round's write can overtake the first round's read.
#pragma body
const uint i = thread_index_in_threadgroup;
threadgroup_array(float, shared, 64);
shared[i] = x[i];
threadgroup_barrier(mem_flags::mem_threadgroup);
const float first = shared[63 - i];
shared[i] = first;
threadgroup_barrier(mem_flags::mem_threadgroup);
y[i] = shared[i];
