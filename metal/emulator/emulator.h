// What a kernel compiled for the host may ask of the emulator; the dialect's host.h wraps it in Metal's names.
#pragma once
#include <cstdint>

// Names the line of the body that called: default arguments are filled in at the call.
#define MLXR_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()
// The emulator's own memory traffic is no part of the kernel's.
#define MLXR_UNCHECKED __attribute__((no_sanitize("thread")))

namespace mlxr {

struct uint3 {
  uint32_t x, y, z;
};

struct Site {
  const char* file;
  int line;
};

// The running thread's place, and the launch's shape. One emulator runs one launch at a time.
struct Place {
  uint3 in_grid, in_threadgroup, group;
  uint32_t index, lane, simdgroup;
};
struct Shape {
  uint3 threads_per_threadgroup, threadgroups;
  uint32_t simdgroups;
};
extern const Place* here;
extern const Shape* shape;

// Ends the launch with a message that names the line; never returns.
[[noreturn]] __attribute__((format(printf, 2, 3))) void refuse(Site site, const char* format, ...);

void threadgroup_barrier(int memory, Site site);
void simdgroup_barrier(int memory, Site site);

// Waits for the other lanes; returns what the 32 brought, kMeetingBytes apart.
constexpr uint32_t kMeetingBytes = 24;
const unsigned char* exchange(const void* mine, uint32_t bytes, const char* what, Site site);

// The same address for every thread of a threadgroup that passes the same `id`.
void* threadgroup_memory(uint32_t id, uint32_t bytes, const char* name, Site site);

// Refuses a vector access at a place that is no multiple of its size, counted from the start of its array.
void check_alignment(const void* p, uint32_t bytes, Site site);

}  // namespace mlxr

// The kernel itself, generated per variant: one thread's work.
extern "C" void mlxr_kernel(void* const* buffers);
