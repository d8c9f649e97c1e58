// The barrier orders threadgroup memory, the value went through device memory.
#pragma body
const uint i = thread_index_in_threadgroup;
y[i] = x[i];
threadgroup_barrier(mem_flags::mem_threadgroup);
const float other = y[63 - i];
threadgroup_barrier(mem_flags::mem_device);
y[i] = other;
