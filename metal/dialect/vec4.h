// Arithmetic of `vec4` where the language has no vectors (CUDA, the host); Metal's float4 has it built in.
struct vec8 {
  vec4 lo, hi;
};

helper vec4 make_vec4(float x, float y, float z, float w) { return {x, y, z, w}; }
helper vec4 make_vec4(float every) { return {every, every, every, every}; }

helper vec4 operator+(vec4 a, vec4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
helper vec4 operator-(vec4 a, vec4 b) { return {a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w}; }
helper vec4 operator*(vec4 a, vec4 b) { return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w}; }
helper vec4 operator*(vec4 a, float b) { return {a.x * b, a.y * b, a.z * b, a.w * b}; }
helper vec4 operator*(float a, vec4 b) { return b * a; }
helper vec4& operator+=(vec4& a, vec4 b) { return a = a + b; }
helper vec4& operator*=(vec4& a, float b) { return a = a * b; }

helper float dot(vec4 a, vec4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
helper vec4 fma(vec4 a, vec4 b, vec4 c) {
  return {fma(a.x, b.x, c.x), fma(a.y, b.y, c.y), fma(a.z, b.z, c.z), fma(a.w, b.w, c.w)};
}
