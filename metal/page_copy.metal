// A page copied onto another of the same pools: `pair` begins with source and target, and nothing is copied where these are
// one; 16 bytes a thread of the keys and of the values.
//
// The pools of LAYERS layers, all of one form, are copied in one launch.
#define EACH uint(16 / sizeof(T))

#define COPY(number, keys, values)                                                    \
  if (layer == number) {                                                              \
    const vec4 key = load4(reinterpret_cast<const device float*>(keys + from));       \
    const vec4 value = load4(reinterpret_cast<const device float*>(values + from));   \
    store4(reinterpret_cast<device float*>(writable(keys) + to), key);                \
    store4(reinterpret_cast<device float*>(writable(values) + to), value);            \
  }

#pragma body
const uint at = thread_position_in_grid.x * EACH;
const uint kv_head = threadgroup_position_in_grid.y % KV_HEADS, layer = threadgroup_position_in_grid.y / KV_HEADS;

if (threadgroup_position_in_grid.x == 0 && threadgroup_position_in_grid.y == 0 && thread_index_in_threadgroup < 8)
  next_fence[thread_index_in_threadgroup] = from_float<T>(0.0f);

if (at < PAGE * HEAD_DIM && pair[0] != pair[1]) {
  const size_t base = size_t(kv_head) * uint(pool[0]) * HEAD_DIM + at;
  const size_t from = base + size_t(pair[0]) * (PAGE * HEAD_DIM), to = base + size_t(pair[1]) * (PAGE * HEAD_DIM);
  COPY(0, keys, values)
#if LAYERS > 1
  COPY(1, keys_1, values_1)
#endif
#if LAYERS > 2
  COPY(2, keys_2, values_2)
#endif
#if LAYERS > 3
  COPY(3, keys_3, values_3)
#endif
#if LAYERS > 4
  COPY(4, keys_4, values_4)
#endif
#if LAYERS > 5
  COPY(5, keys_5, values_5)
#endif
#if LAYERS > 6
  COPY(6, keys_6, values_6)
#endif
#if LAYERS > 7
  COPY(7, keys_7, values_7)
#endif
}
