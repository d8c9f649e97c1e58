// Narrows floats to T, and widens T's bits.
#pragma body
const uint i = thread_position_in_grid.x;
narrow[i] = from_float<T>(wide[i]);
widened[i] = to_float(stored[i]);
