// A static inside a function.
#pragma body
const uint i = thread_index_in_threadgroup;
static int calls = 0;
y[i] = x[i] + float(++calls);
