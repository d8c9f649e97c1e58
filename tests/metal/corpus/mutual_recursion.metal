// Two helpers that call each other.
helper bool odd(int n);
helper bool even(int n) { return n == 0 || odd(n - 1); }
helper bool odd(int n) { return n != 0 && even(n - 1); }
#pragma body
const uint i = thread_index_in_threadgroup;
y[i] = x[i] + float(even(int(i)));
