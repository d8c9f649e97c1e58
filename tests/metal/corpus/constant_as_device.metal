// A small input is `constant`, and a helper wants `device`.
helper float first(const device float* p) { return p[0]; }
#pragma body
const uint i = thread_index_in_threadgroup;
y[i] = first(small);
