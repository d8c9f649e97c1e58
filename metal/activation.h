// The gate of a product. ACTIVATION: 0 for none, 1 for SiLU, 2 for GELU (its tanh form) of gate rows times up rows.
#define GATED (ACTIVATION > 0)

// exp overflows to infinity for a very negative gate, and the quotient is then zero, as it should be.
helper float activated(float gate) {
#if ACTIVATION == 2
  // Hendrycks and Gimpel 2016, arXiv:1606.08415: g/2 · (1 + tanh(u)) = g / (1 + exp(-2u)).
  return gate / (1.0f + exp(-1.5957691216f * fma(0.044715f * gate * gate, gate, gate)));
#else
  return gate / (1.0f + exp(-gate));
#endif
}
