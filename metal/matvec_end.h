// How the body of a matrix-vector kernel ends: its simdgroups' sums meet, and lanes write what follows from them.
// It takes `parts`, `squares`, `lane`, `share` and `first` from the text before it.
#if SPLIT > 1
const matvec_sums mine = summed<COUNT, OUTPUTS, M>(parts, squares, lane);
store_sums(partial, thread_index_in_threadgroup, mine);
threadgroup_barrier(mem_flags::mem_threadgroup);
if (share > 0) return;
const matvec_sums sums = load_sums(partial, thread_index_in_threadgroup);
#else
const matvec_sums sums = summed<COUNT, OUTPUTS, M>(parts, squares, lane);
#endif

const uint item = lane / (32 / COUNT);
const uint m = item / OUTPUTS;
const uint n = first + item % OUTPUTS;
if (lane % (32 / COUNT) > 0 || m >= M || n >= N) return;
#if NORM
const float scale = rsqrt(sums.squares / float(K) + EPSILON);
#else
const float scale = 1.0f;
#endif
float value = sums.value * scale;
#if BIAS
value += to_float(bias[n]);
#endif
#if GATED
float up = sums.up * scale;
#if BIAS
up += to_float(bias[N + n]);
#endif
value = activated(value) * up;
#endif
#if RESIDUAL
value += to_float(residual[m * N + n]);
#endif
y[m * N + n] = from_float<RESULT>(value);
