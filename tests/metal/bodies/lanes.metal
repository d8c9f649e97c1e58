// Every simdgroup operation, one row of the output each.
#pragma body
const uint i = thread_index_in_threadgroup, lane = thread_index_in_simdgroup;
const uint width = threads_per_threadgroup.x;
const float mine = x[i];
y[i] = simd_sum(mine);
y[width + i] = simd_max(mine);
y[2 * width + i] = simd_shuffle(mine, 31 - lane);
y[3 * width + i] = simd_shuffle_xor(mine, 5);
const float below = simd_shuffle_down(mine, 3);
y[4 * width + i] = lane < 29 ? below : 0.0f;
y[5 * width + i] = simd_broadcast(mine, 7);
y[6 * width + i] = float(simd_sum(int(i)) - simd_max(int(i)));
y[7 * width + i] = float(simd_sum(i) + simd_shuffle_xor(i, 1));
