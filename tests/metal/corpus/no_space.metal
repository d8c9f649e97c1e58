// A pointer that names no address space.
#pragma body
const uint i = thread_index_in_threadgroup;
const float* p = x;
y[i] = p[i];
