// Tokens of one sequence out of its pages, side by side: 16 bytes a thread of the keys and of the values.
//
// Token t of the result is token first[0] + t of the sequence; a token in no page (page -1), or behind the
// first `kept`, comes out as zeros.
#define EACH uint(16 / sizeof(T))

#pragma body
const uint index = thread_position_in_grid.x;
const uint kv_head = threadgroup_position_in_grid.y;
const uint slots = uint(pool[0]), tokens = uint(sizes[0]), kept = uint(sizes[1]);

if (threadgroup_position_in_grid.x == 0 && kv_head == 0 && index < 8) next_fence[index] = from_float<T>(0.0f);

const uint token = index / (HEAD_DIM / EACH), at = index % (HEAD_DIM / EACH) * EACH;
if (token < tokens) {
  const uint position = uint(first[0]) + token;
  const int page = token < kept ? table[position / PAGE] : -1;
  vec4 key = make_vec4(0.0f), value = make_vec4(0.0f);
  if (page >= 0) {
    // Four words of bits, whatever T is: what is copied is not converted.
    const size_t from = (size_t(kv_head) * slots + uint(page) * PAGE + position % PAGE) * HEAD_DIM + at;
    key = load4(reinterpret_cast<const device float*>(keys + from));
    value = load4(reinterpret_cast<const device float*>(values + from));
  }
  const size_t to = (size_t(kv_head) * tokens + token) * HEAD_DIM + at;
  store4(reinterpret_cast<device float*>(out_keys + to), key);
  store4(reinterpret_cast<device float*>(out_values + to), value);
}
