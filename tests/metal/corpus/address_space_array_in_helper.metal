// Threadgroup arrays belong to the kernel.
helper float total(float v) {
  threadgroup_array(float, shared, 64);
  shared[0] = v;
  return shared[0];
}
#pragma body
const uint i = thread_index_in_threadgroup;
y[i] = total(x[i]);
