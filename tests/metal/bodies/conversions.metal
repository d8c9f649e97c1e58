// Narrows floats to T, and widens T's bits, and those of a half that lie in a word.
#pragma body
const uint i = thread_position_in_grid.x;
narrow[i] = from_float<T>(wide[i]);
widened[i] = to_float(stored[i]);
halved[i] = half_to_float(0xabcd0000u | i);
low[i] = uint(pairs[i]);
