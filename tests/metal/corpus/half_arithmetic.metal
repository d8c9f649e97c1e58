// Computes in the storage format.
#pragma body
const uint i = thread_index_in_threadgroup;
y[i] = to_float(h[i] + h[i]);
