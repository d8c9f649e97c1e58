// The last thread writes one element past the output.
#pragma body
const uint i = thread_index_in_threadgroup;
y[i + 1] = x[i];
