// A vector load from an odd element.
#pragma body
const uint i = thread_index_in_threadgroup;
y[i] = i < 60 ? load4(x + i).x : 0.0f;
