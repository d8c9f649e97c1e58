// Metal has no double.
#pragma body
const uint i = thread_index_in_threadgroup;
double wide = x[i];
y[i] = wide;
