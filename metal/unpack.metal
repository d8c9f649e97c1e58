// What the layers of a short chunk read of it: its numbers, out of the memory that the host has written them to, and the angles
// of its rows' positions.
//
// The first numbers say how many there are, how many rows the chunk has, and where the positions of these stand.
#pragma body
const uint at = thread_position_in_grid.x;
const uint count = uint(written[0]), rows = uint(written[1]), first = uint(written[2]);
if (at < count) numbers[at] = written[at];
if (at < rows * DIMS) own[at] = angles[size_t(uint(written[first + at / DIMS])) * DIMS + at % DIMS];
