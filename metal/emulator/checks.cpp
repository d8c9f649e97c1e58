// Watches every memory access of a kernel: bounds, races, reads of what nobody wrote, and bytes counted.
//
// g++ -fsanitize=thread puts a call before each access; this file answers those calls in place of libtsan. A
// threadgroup's fibers and barriers are known here exactly, so a race is not sampled but proved: two threads touch
// one element, one of them writing, and no barrier that orders that kind of memory lies between.
#include <cinttypes>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "emulator.h"
#include "launch.h"

extern "C" const char __ehdr_start[] __attribute__((visibility("hidden")));  // where this library lies
extern "C" const char _end[] __attribute__((visibility("hidden")));

namespace mlxr::checks {
namespace {

constexpr uint32_t kLine = 128, kDevice = 0, kThreadgroup = 1;
constexpr Site kNowhere = {nullptr, 0};

struct Access {
  uintptr_t code;      // 0: none yet
  uint32_t phase;      // of that memory's barriers, over the whole launch
  uint32_t sub_phase;  // of the simdgroup's own barriers
  uint32_t group;      // the threadgroup's number
  uint32_t thread;
};

// The last write, and readers enough to prove any conflict with a later write: two threads each of two simdgroups.
struct Cell {
  Access write, read[2][2];
};

struct Region {
  uintptr_t start;
  uint64_t bytes;
  const char* name;
  uint32_t item, kind;
  bool is_constant, is_writable;
  Buffer* buffer;
  Cell* cells;
  std::vector<bool> lines_read, lines_written;
};

std::vector<Region> regions;
uint32_t device_regions;
uintptr_t stacks_start, stacks_end, scratch_start, scratch_end;
Cell* scratch_cells;
uint32_t group, phase[2], sub_phase[2][32];

Region* region_of(uintptr_t address) {
  for (Region& region : regions)
    if (address - region.start < region.bytes) return &region;
  return nullptr;
}

uintptr_t relative(uintptr_t code) { return code - reinterpret_cast<uintptr_t>(__ehdr_start) - 1; }

// The array that ends closest before an address that lies in none.
const Region* overrun(uintptr_t address) {
  const Region* best = nullptr;
  for (const Region& region : regions)
    if (region.start + region.bytes <= address && (!best || region.start > best->start)) best = &region;
  return best && address - best->start - best->bytes < 4096 ? best : nullptr;
}

[[noreturn]] void refuse_stray(uintptr_t address, uint32_t size, bool write, uintptr_t code) {
  const char* verb = write ? "writes" : "reads";
  if (const Region* region = overrun(address))
    refuse(kNowhere, "@0x%" PRIxPTR "@: thread %u %s %u bytes past the end of '%s' (%" PRIu64 " bytes, at byte %" PRIu64 ")",
           relative(code), here->index, verb, size, region->name, region->bytes, uint64_t(address - region->start));
  refuse(kNowhere, "@0x%" PRIxPTR "@: thread %u %s %u bytes outside of every array", relative(code), here->index,
         verb, size);
}

bool conflicts(const Access& before, uint32_t kind) {
  if (before.code == 0) return false;
  if (before.group != group) return kind == kDevice;
  if (before.thread == here->index || before.phase != phase[kind]) return false;
  return before.thread / 32 != here->simdgroup || before.sub_phase == sub_phase[kind][here->simdgroup];
}

[[noreturn]] void refuse_race(const Region& region, uint64_t element, const Access& before, bool was_write,
                              bool write, uintptr_t code) {
  refuse(kNowhere,
         "race on '%s' element %" PRIu64 ": thread %u of threadgroup %u %s it at @0x%" PRIxPTR
         "@, thread %u of threadgroup %u %s it at @0x%" PRIxPTR "@, and no barrier lies between",
         region.name, element, before.thread, before.group, was_write ? "wrote" : "read", relative(before.code),
         here->index, group, write ? "writes" : "reads", relative(code));
}

void remember_reader(Cell& cell, const Access& access, uint32_t kind) {
  const auto stale = [&](const Access& a) {
    if (a.code == 0) return true;
    return a.group == group ? a.phase != phase[kind] : kind == kThreadgroup;
  };
  for (auto& slot : cell.read) {
    const bool same_simdgroup = slot[0].group == group && slot[0].thread / 32 == here->simdgroup;
    if (!stale(slot[0]) && !same_simdgroup) continue;
    if (stale(slot[0]) || slot[0].thread != access.thread) slot[1] = same_simdgroup ? slot[0] : Access{};
    slot[0] = access;
    return;
  }
}

void check_element(Region& region, uint64_t element, bool write, uintptr_t code) {
  Cell& cell = region.cells[element];
  const Access access = {code, phase[region.kind], sub_phase[region.kind][here->simdgroup], group, here->index};
  if (conflicts(cell.write, region.kind)) refuse_race(region, element, cell.write, true, write, code);
  if (!write) {
    if (region.kind == kThreadgroup && (cell.write.code == 0 || cell.write.group != group))
      refuse(kNowhere, "@0x%" PRIxPTR "@: thread %u reads '%s' at byte %" PRIu64 ", which no thread has written",
             relative(code), here->index, region.name, element);
    return remember_reader(cell, access, region.kind);
  }
  for (auto& slot : cell.read)
    for (Access& reader : slot)
      if (conflicts(reader, region.kind)) refuse_race(region, element, reader, false, true, code);
  cell.write = access;
}

void count(Region& region, uint64_t offset, uint32_t size, bool write) {
  if (region.is_constant || !region.buffer) return;
  (write ? region.buffer->bytes_written : region.buffer->bytes_read) += size;
  auto& lines = write ? region.lines_written : region.lines_read;
  for (uint64_t line = offset / kLine; line <= (offset + size - 1) / kLine; ++line) lines[line] = true;
}

void access(uintptr_t address, uint32_t size, bool write, uintptr_t code) {
  if (here == nullptr || (address >= stacks_start && address < stacks_end)) return;
  Region* region = region_of(address);
  if (region == nullptr) {
    const bool own = address >= reinterpret_cast<uintptr_t>(__ehdr_start) && address < reinterpret_cast<uintptr_t>(_end);
    if (own && (address < scratch_start || address >= scratch_end)) return;
    refuse_stray(address, size, write, code);
  }
  const uint64_t offset = address - region->start;
  if (offset + size > region->bytes) refuse_stray(region->start + region->bytes, size, write, code);
  if (write && !region->is_writable)
    refuse(kNowhere, "@0x%" PRIxPTR "@: thread %u writes the input '%s', which the launcher does not name in in_place",
           relative(code), here->index, region->name);
  count(*region, offset, size, write);
  for (uint64_t element = offset / region->item; element <= (offset + size - 1) / region->item; ++element)
    check_element(*region, element, write, code);
}

}  // namespace

void begin(Launch& launch, const void* stacks, uint64_t stack_bytes, const void* scratch, uint64_t scratch_bytes) {
  stacks_start = reinterpret_cast<uintptr_t>(stacks);
  stacks_end = stacks_start + stack_bytes;
  scratch_start = reinterpret_cast<uintptr_t>(scratch);
  scratch_end = scratch_start + scratch_bytes;
  scratch_cells = static_cast<Cell*>(calloc(scratch_bytes, sizeof(Cell)));
  phase[0] = phase[1] = 0;
  regions.clear();
  for (uint32_t i = 0; i < launch.buffer_count; ++i) {
    Buffer& buffer = launch.buffers[i];
    const uint64_t lines = (buffer.bytes + kLine - 1) / kLine;
    regions.push_back({reinterpret_cast<uintptr_t>(buffer.data), buffer.bytes, buffer.name, buffer.item_bytes, kDevice,
                       buffer.is_constant != 0, buffer.is_writable != 0, &buffer,
                       static_cast<Cell*>(calloc(buffer.bytes / buffer.item_bytes + 1, sizeof(Cell))),
                       std::vector<bool>(lines), std::vector<bool>(lines)});
  }
  device_regions = launch.buffer_count;
}

void begin_threadgroup(uint32_t number) {
  group = number;
  ++phase[kDevice];
  ++phase[kThreadgroup];
  regions.resize(device_regions);
}

void declared(const void* data, uint64_t bytes, const char* name) {
  const uintptr_t start = reinterpret_cast<uintptr_t>(data);
  regions.push_back({start, bytes, name, 1, kThreadgroup, false, true, nullptr, scratch_cells + (start - scratch_start),
                     {}, {}});
}

void threadgroup_barrier(int memory) {
  if (memory & 1) ++phase[kDevice];
  if (memory & 2) ++phase[kThreadgroup];
}

void simdgroup_barrier(uint32_t simdgroup, int memory) {
  if (memory & 1) ++sub_phase[kDevice][simdgroup];
  if (memory & 2) ++sub_phase[kThreadgroup][simdgroup];
}

void end() {
  here = nullptr;
  for (Region& region : regions) {
    if (!region.buffer) continue;
    for (const bool touched : region.lines_read) region.buffer->lines_read += touched;
    for (const bool touched : region.lines_written) region.buffer->lines_written += touched;
    free(region.cells);
  }
  free(scratch_cells);
  regions.clear();
}

}  // namespace mlxr::checks

#define CODE reinterpret_cast<uintptr_t>(__builtin_return_address(0))
#define MLXR_ACCESS(size)                                                                                       \
  void __tsan_read##size(void* p) { mlxr::checks::access(reinterpret_cast<uintptr_t>(p), size, false, CODE); }  \
  void __tsan_write##size(void* p) { mlxr::checks::access(reinterpret_cast<uintptr_t>(p), size, true, CODE); }  \
  void __tsan_unaligned_read##size(void* p) {                                                                   \
    mlxr::checks::access(reinterpret_cast<uintptr_t>(p), size, false, CODE);                                    \
  }                                                                                                             \
  void __tsan_unaligned_write##size(void* p) {                                                                  \
    mlxr::checks::access(reinterpret_cast<uintptr_t>(p), size, true, CODE);                                     \
  }

extern "C" {
MLXR_ACCESS(1)
MLXR_ACCESS(2)
MLXR_ACCESS(4)
MLXR_ACCESS(8)
MLXR_ACCESS(16)
void __tsan_read_range(void* p, uintptr_t size) {
  mlxr::checks::access(reinterpret_cast<uintptr_t>(p), uint32_t(size), false, CODE);
}
void __tsan_write_range(void* p, uintptr_t size) {
  mlxr::checks::access(reinterpret_cast<uintptr_t>(p), uint32_t(size), true, CODE);
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
}
