// The functions that the dialect has on floats.
#pragma body
const uint i = thread_position_in_grid.x;
const uint n = threads_per_threadgroup.x;
const float v = x[i];
y[i] = exp2(v);
y[n + i] = rsqrt(abs(v) + 1.0f);
y[2 * n + i] = fma(v, v, -1.0f);
y[3 * n + i] = max(v, 0.5f) - min(v, 0.25f);
y[4 * n + i] = exp(v) + log(abs(v) + 1.0f);
y[5 * n + i] = sin(v) * cos(v);
y[6 * n + i] = tanh(v) + sqrt(abs(v));
y[7 * n + i] = log2(abs(v) + 2.0f);
