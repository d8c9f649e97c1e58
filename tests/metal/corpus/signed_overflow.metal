// Undefined in every language of the dialect.
#pragma body
const uint i = thread_index_in_threadgroup;
int large = 2147483647;
large += int(i);
y[i] = x[i] + float(large);
