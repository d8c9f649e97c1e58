// Two arrays that fit one by one, not together.
#pragma body
const uint i = thread_index_in_threadgroup;
threadgroup_array(float, first, 5000);
threadgroup_array(float, second, 5000);
first[i] = second[i] = x[i];
y[i] = first[i] + second[i];
