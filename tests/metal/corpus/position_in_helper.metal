// Metal hands a thread's place to the kernel, not to its helpers.
helper float lane() { return float(thread_index_in_simdgroup); }
#pragma body
const uint i = thread_index_in_threadgroup;
y[i] = x[i] + lane();
