// Runs a little program per thread: each step touches one element of threadgroup or of device memory, or none, and
// ends with the barrier that `barriers` names. It exists to test the race check against a plain definition of a race.
#pragma body
threadgroup_array(float, shared, 8);
const uint i = thread_index_in_threadgroup;
const uint group = threadgroup_position_in_grid.x;
device float* const pool_again = writable(pool);
if (i < 8) shared[i] = 0.0f;
threadgroup_barrier(mem_flags::mem_threadgroup);
float sum = 0.0f;
for (uint step = 0; step < STEPS; ++step) {
  const int what = steps[(group * STEPS + step) * 64 + i];
  const int element = what >> 2;
  const bool write = (what & 1) != 0, on_device = (what & 2) != 0;
  if (what >= 0) {
    if (on_device && write) pool_again[element] = sum;
    if (on_device && !write) sum += pool_again[element];
    if (!on_device && write) shared[element] = sum;
    if (!on_device && !write) sum += shared[element];
  }
  if (barriers[step] == 1) threadgroup_barrier(mem_flags::mem_threadgroup);
  if (barriers[step] == 2) threadgroup_barrier(mem_flags::mem_device);
  if (barriers[step] == 3) threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  if (barriers[step] == 4) simdgroup_barrier(mem_flags::mem_threadgroup);
  if (barriers[step] == 5) simdgroup_barrier(mem_flags::mem_device);
}
y[group * 64 + i] = sum;
