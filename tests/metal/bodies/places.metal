// Where each thread is, as Metal names it.
#pragma body
const uint3 grid = thread_position_in_grid, group = threadgroup_position_in_grid;
const uint3 place = thread_position_in_threadgroup, size = threads_per_threadgroup, groups = threadgroups_per_grid;
const uint width = size.x * groups.x, height = size.y * groups.y;
const uint at = 8 * (grid.x + width * (grid.y + height * grid.z));
y[at] = group.x + 10 * group.y + 100 * group.z;
y[at + 1] = place.x + 10 * place.y + 100 * place.z;
y[at + 2] = size.x + 10 * size.y + 100 * size.z;
y[at + 3] = groups.x + 10 * groups.y + 100 * groups.z;
y[at + 4] = thread_index_in_threadgroup;
y[at + 5] = thread_index_in_simdgroup;
y[at + 6] = simdgroup_index_in_threadgroup;
y[at + 7] = simdgroups_per_threadgroup;
