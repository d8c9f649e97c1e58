// What the layers of a short chunk read of it, out of what the host wrote where it lies.
//
// Written are, one after the other: (behind, rows, tokens, begin, used, pages, slots, 0); the page to be copied, of 8 numbers; `behind`
// numbers; the tokens' ids; and `used` pages. Made are
// - slots: of each row, -1 behind the tokens; the page to be copied, and the slots that there are: see matmul.metal
// - sequences: the only one, with its tokens, and `pages` pages, -1 behind those that are used: see prefill_attention.metal
// - own: the angles of each row's position, behind the tokens of the last one's
// - rest: of each row the id; and where there are `behind` numbers the position, and these.
#pragma body
const uint at = thread_position_in_grid.x;
const uint behind = uint(written[0]), rows = uint(written[1]), pages = uint(written[5]);
const int tokens = written[2], begin = written[3], used = written[4];
const uint ids = 16 + behind, table = ids + uint(tokens);
if (at < rows) {
  const int token = begin + int(at);
  const bool is_token = int(at) < tokens;
  slots[at] = is_token ? written[table + uint(token) / PAGE] * PAGE + token % PAGE : -1;
  rest[at] = is_token ? uint(written[ids + at]) : 0u;
  if (behind > 0) rest[rows + at] = uint(min(token, begin + tokens - 1));
} else if (at < rows + 8) {
  slots[at] = written[at == rows + 3 ? 6 : 8 + at - rows];
}
if (at < behind) rest[2 * rows + at] = uint(written[16 + at]);
if (at < 8 + pages) {
  const int page = int(at) - 8;
  sequences[at] = at == 0 ? written[6] : at == 1 ? int(pages) : at == 2 ? int(rows) : at == 4 ? 1 : at == 5 ? begin : at == 6 ? 0
      : page < 0 ? tokens : page < used ? written[table + uint(page)] : -1;
}
if (at < rows * DIMS) own[at] = angles[size_t(begin + min(int(at / DIMS), tokens - 1)) * DIMS + at % DIMS];
