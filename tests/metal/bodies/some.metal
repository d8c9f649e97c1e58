// Writes every second element, adds one to a pool in place.
#pragma body
const uint i = thread_index_in_threadgroup;
y[2 * i] = from_float<T>(1.0f);
writable(pool)[i] = from_float<T>(to_float(pool[i]) + 1.0f);
