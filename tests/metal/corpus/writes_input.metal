// Writes an input that the launcher did not declare as written.
#pragma body
const uint i = thread_index_in_threadgroup;
writable(x)[i] = 0.0f;
y[i] = x[i];
