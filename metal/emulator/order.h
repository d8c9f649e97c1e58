// The random order in which the emulator runs what a GPU runs in no order at all.
#pragma once
#include <cstdint>
#include <utility>

namespace mlxr {

// SplitMix64 (Steele, Lea and Flood 2014): neighbouring seeds give unrelated sequences.
struct Order {
  uint64_t state;

  uint32_t below(uint32_t limit) {
    state += 0x9e3779b97f4a7c15u;
    uint64_t mixed = state;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return uint32_t(((mixed ^ mixed >> 31) >> 32) * limit >> 32);
  }

  // Fills `places` with 0 to count - 1, shuffled.
  void shuffle(uint32_t* places, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) places[i] = i;
    for (uint32_t i = count; i > 1; --i) std::swap(places[i - 1], places[below(i)]);
  }
};

}  // namespace mlxr
