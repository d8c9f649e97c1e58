// Vector loads and stores of T, from device and from threadgroup memory, with the arithmetic of vec4.
#pragma body
threadgroup_array(T, shared, 512);
const uint i = thread_index_in_threadgroup;
const vec8 wide = load8(x + 8 * i);
store8(shared + 8 * i, wide);
store4(y + 4 * i, fma(wide.lo, make_vec4(2.0f), wide.hi) - wide.lo * wide.hi + make_vec4(1.0f, 2.0f, 3.0f, 4.0f));
threadgroup_barrier(mem_flags::mem_threadgroup);
const uint other = 63 - i;
const packet<T> raw = load_packet(x + 8 * other), kept = load_packet(shared + 8 * other);
const vec8 far = load8(shared + 8 * other);
const vec4 near = load4(shared + 8 * other + 4);
y[256 + i] = from_float<T>(dot(far.lo, make_vec4(1.0f, 0.5f, 0.25f, 0.125f)) + near.x);
store8(z + 8 * i, {unpack8(raw).lo, unpack8(kept).hi});
const uint4 four = load_words(words + 4 * i);
sums[i] = four.x + four.y * 3u + four.z * 5u + four.w * 7u;
bits[i] = as_float(0x4B000000u | four.w) - 8388608.0f;  // a float's last mantissa bits, where it is 2^23 or more, are units
