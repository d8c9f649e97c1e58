// Half of the threads stand at one barrier, half at another.
#pragma body
const uint i = thread_index_in_threadgroup;
if (i < 32) {
  threadgroup_barrier(mem_flags::mem_threadgroup);
} else {
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
y[i] = x[i];
