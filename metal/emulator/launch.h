// One launch as Python hands it over (metal/emulator/launch.py mirrors these fields), and what comes back.
#pragma once
#include <cstdint>

namespace mlxr {

struct Buffer {
  void* data;
  uint64_t bytes;
  const char* name;
  uint32_t item_bytes;
  uint32_t is_constant;  // fewer than 8 elements: another address space in Metal, and not counted
  uint32_t is_writable;
  uint32_t unused;
  uint64_t bytes_read, bytes_written, lines_read, lines_written;  // filled by a checked build
};

struct Launch {
  uint32_t threadgroups[3];
  uint32_t threads[3];  // per threadgroup
  uint64_t seed;        // orders threadgroups, simdgroups and lanes
  Buffer* buffers;
  uint32_t buffer_count;
  uint32_t threadgroup_bytes;   // filled
  uint64_t barriers, meetings;  // filled: threadgroup barriers, simdgroup operations
  char message[2048];           // filled when the launch is refused; @0x…@ is a place in this library's code
};

// What the checked build adds at each event; absent otherwise.
#ifdef MLXR_CHECKED
namespace checks {
void begin(Launch& launch, const void* stacks, uint64_t stack_bytes, const void* scratch, uint64_t scratch_bytes);
void begin_threadgroup(uint32_t number);
void declared(const void* data, uint64_t bytes, const char* name);
void threadgroup_barrier(int memory);
void simdgroup_barrier(uint32_t simdgroup, int memory);
void end();
}  // namespace checks
#endif

}  // namespace mlxr

extern "C" int mlxr_emulate(mlxr::Launch* launch);  // 0, or 1 with a message
