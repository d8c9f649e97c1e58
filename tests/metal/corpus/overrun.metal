// The last thread reads one element past the input.
#pragma body
const uint i = thread_index_in_threadgroup;
y[i] = x[i + 1];
