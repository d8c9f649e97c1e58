// y = 2 (s − max s) · v where s = a · bᵀ, a row's largest taken off by the lanes that hold it; squares of a's rows; and (a · weights) bᵀ: one
// simdgroup.
#pragma body
const uint lane = thread_index_in_simdgroup, row = matrix_row(lane);
matrix8x8<T> left[2], right[2], narrow, value[4];
matrix8x8<float> score, sum[4];
matrix_read_wide<2>(left, a + row * 16, lane);
matrix_load_wide_transposed<2>(right, b, 16);
matrix_fill(score, 0.0f);
for (uint i = 0; i < 2; ++i) matrix_multiply_accumulate(score, left[i], right[i]);
const float most = matrix_row_max(max(matrix_get(score, 0), matrix_get(score, 1)));
for (uint i = 0; i < 2; ++i) {
  where[row * 8 + matrix_column(lane) + i] = matrix_get(score, i);
  matrix_set(score, i, matrix_get(score, i) - most);
}
const float total = matrix_row_sum(matrix_get(score, 0) + matrix_get(score, 1));
if (matrix_column(lane) == 0) totals[row] = total;
if (lane == 0) any[1] = 0;
const bool is_one = simd_any(lane == 7), is_none = simd_any(lane == 32);
if (lane == 0) {
  any[0] = is_one ? 1 : 0;
  any[1] = is_none ? 1 : 0;
}
matrix_narrow(narrow, score);
matrix_load_right<4>(value, v, 32);
for (uint i = 0; i < 4; ++i) {
  matrix_fill(sum[i], 0.0f);
  matrix_multiply_accumulate(sum[i], narrow, value[i]);
  matrix_scale(sum[i], 2.0f);
}
matrix_write_right<4>(sum, y + row * 32, lane);
float squares = 0.0f;
for (uint i = 0; i < 2; ++i) squares += matrix_squares(left[i]);
squares = matrix_row_sum(squares);
if (matrix_column(lane) == 0) totals[8 + row] = squares;
matrix_read_wide<2>(right, weights, lane);
for (uint i = 0; i < 2; ++i) matrix_weigh(left[i], right[i]);
matrix_load_wide_transposed_once<2>(right, b, 16);
matrix_fill(score, 0.0f);
for (uint i = 0; i < 2; ++i) matrix_multiply_accumulate(score, left[i], right[i]);
for (uint i = 0; i < 2; ++i) weighed[row * 8 + matrix_column(lane) + i] = matrix_get(score, i);
