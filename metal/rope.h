// Rotary embedding of 8 elements of a head, from projections to registers (Su et al. 2021, arXiv:2104.09864).
//
// `angles` holds a row's ROTARY / 2 cosines, then as many sines. Element i turns with i + ROTARY / 2; both halves are
// multiples of 8, so a lane's 8 elements have their 8 partners in one access. HEAD_NORM (0 or 1) says whether elements are
// scaled by `inverse` and by `weight`, the RMS norm of query and key heads, first.
helper vec8 scaled8(vec8 a, float by) { return {a.lo * by, a.hi * by}; }
helper vec8 product8(vec8 a, vec8 b) { return {a.lo * b.lo, a.hi * b.hi}; }
helper vec8 turned8(vec8 x, vec8 partner, vec8 cosine, vec8 sine) {
  return {x.lo * cosine.lo + partner.lo * sine.lo, x.hi * cosine.hi + partner.hi * sine.hi};
}
helper float squared8(vec8 a) { return dot(a.lo, a.lo) + dot(a.hi, a.hi); }

#if HEAD_NORM
template <uint ROTARY, typename T, typename W>
helper vec8 rotated8(const device T* head, const device float* angles, uint at, const device W* weight, float inverse) {
  const vec8 x = product8(scaled8(load8(head + at), inverse), load8(weight + at));
#else
template <uint ROTARY, typename T>
helper vec8 rotated8(const device T* head, const device float* angles, uint at) {
  const vec8 x = load8(head + at);
#endif
  if (int(at) >= int(ROTARY)) return x;  // as int: with no rotation at all, NVIDIA's compiler warns of at >= 0u
  const bool is_first = int(at) < int(ROTARY) / 2;
  const uint other = is_first ? at + ROTARY / 2 : at - ROTARY / 2;
#if HEAD_NORM
  const vec8 partner = product8(scaled8(load8(head + other), inverse), load8(weight + other));
#else
  const vec8 partner = load8(head + other);
#endif
  const uint pair = is_first ? at : other;
  const vec8 sine = load8(angles + ROTARY / 2 + pair);
  return turned8(x, partner, load8(angles + pair), scaled8(sine, is_first ? -1.0f : 1.0f));
}
