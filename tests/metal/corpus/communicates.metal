// Every threadgroup writes the same elements.
#pragma body
const uint i = thread_index_in_threadgroup;
y[i] = x[i];
