// Runs a launch: every thread of a threadgroup is a fiber, threadgroups go one after the other in a seeded order.
#include "emulator.h"

#include <sys/mman.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "fiber.h"
#include "launch.h"
#include "order.h"

#ifdef MLXR_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace mlxr {

const Place* here = nullptr;
const Shape* shape = nullptr;

namespace {

constexpr uint32_t kLanes = 32, kMaxThreads = 1024, kMaxArrays = 32;
constexpr uint32_t kThreadgroupBytes = 32768, kGap = 64;  // a gap after every array shows overruns
constexpr uint64_t kGuard = 4096;
#ifdef MLXR_ADDRESS_SANITIZER
constexpr uint64_t kStack = 256 * 1024;  // instrumented frames are large
#else
constexpr uint64_t kStack = 60 * 1024;
#endif

enum class State { ready, meets, at_barrier, ended };

struct Fiber {
  Stack stack;
  State state;
  Site site;
  const char* what;
  uint32_t bytes;
  int memory;
  Place place;
};

struct Array {
  bool declared;
  uint32_t offset, bytes;
};

Launch* launch;
Shape launch_shape;
Fiber fibers[kMaxThreads];
Fiber* running;
uint32_t thread_count;
Stack scheduler;
bool refused;
Order order;
uint32_t simdgroup_order[kLanes], lane_order[kLanes];
// Two sides, used in turn: a lane may reach the next meeting before another has read this one.
unsigned char meeting[kMaxThreads / kLanes][2][kLanes][kMeetingBytes];
uint32_t parity[kMaxThreads / kLanes];
alignas(128) unsigned char scratch[kThreadgroupBytes + kMaxArrays * kGap];
Array arrays[kMaxArrays];
uint32_t scratch_used, array_bytes;

__attribute__((format(printf, 1, 2))) void report(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(launch->message, sizeof(launch->message), format, arguments);
  va_end(arguments);
  refused = true;
}

void leave_fiber(bool for_good) { switch_stack(running->stack, scheduler, for_good); }

void enter_fiber(Fiber& fiber) {
  running = &fiber;
  here = &fiber.place;
  switch_stack(scheduler, fiber.stack, false);
}

void* buffer_pointers[64];

void fiber_main() {
  arrive_from(scheduler);
  mlxr_kernel(buffer_pointers);
  running->state = State::ended;
  leave_fiber(true);
  __builtin_unreachable();
}

void wait(State state, const char* what, uint32_t bytes, int memory, Site site) {
  running->state = state;
  running->what = what;
  running->bytes = bytes;
  running->memory = memory;
  running->site = site;
  leave_fiber(false);
}

void describe(const Fiber& fiber, char* text, size_t size) {
  if (fiber.state == State::ended)
    snprintf(text, size, "thread %u has ended", fiber.place.index);
  else
    snprintf(text, size, "thread %u waits in %s at %s:%d", fiber.place.index, fiber.what, fiber.site.file,
             fiber.site.line);
}

bool together(const Fiber& a, const Fiber& b) {
  if (a.state != b.state) return false;
  if (a.state == State::ended) return true;
  return a.site.line == b.site.line && std::strcmp(a.site.file, b.site.file) == 0 && a.memory == b.memory &&
         a.bytes == b.bytes && std::strcmp(a.what, b.what) == 0;
}

void refuse_divergence(const Fiber& a, const Fiber& b) {
  const bool barrier = a.state == State::at_barrier || b.state == State::at_barrier;
  char first[256], second[256];
  describe(a, first, sizeof(first));
  describe(b, second, sizeof(second));
  report("divergent %s: %s, but %s", barrier ? "barrier" : "simdgroup operation", first, second);
}

// Runs a simdgroup until its lanes have ended or stand at one threadgroup barrier.
void run_simdgroup(uint32_t simdgroup) {
  Fiber* lanes = fibers + simdgroup * kLanes;
  while (!refused) {
    for (uint32_t i = 0; i < kLanes && !refused; ++i)
      if (lanes[lane_order[i]].state == State::ready) enter_fiber(lanes[lane_order[i]]);
    if (refused) return;
    for (uint32_t i = 1; i < kLanes; ++i)
      if (!together(lanes[0], lanes[i])) return refuse_divergence(lanes[0], lanes[i]);
    if (lanes[0].state != State::meets) return;
    ++launch->meetings;
#ifdef MLXR_CHECKED
    if (lanes[0].bytes == 0) checks::simdgroup_barrier(simdgroup, lanes[0].memory);
#endif
    parity[simdgroup] ^= 1;
    for (uint32_t i = 0; i < kLanes; ++i) lanes[i].state = State::ready;
  }
}

void run_threads() {
  while (!refused) {
    for (uint32_t i = 0; i < launch_shape.simdgroups && !refused; ++i) run_simdgroup(simdgroup_order[i]);
    if (refused) return;
    for (uint32_t i = kLanes; i < thread_count; i += kLanes)
      if (!together(fibers[0], fibers[i])) return refuse_divergence(fibers[0], fibers[i]);
    if (fibers[0].state == State::ended) return;
    ++launch->barriers;
#ifdef MLXR_CHECKED
    checks::threadgroup_barrier(fibers[0].memory);
#endif
    for (uint32_t i = 0; i < thread_count; ++i) fibers[i].state = State::ready;
  }
}

uint3 split(uint32_t index, uint3 size) {
  return {index % size.x, index / size.x % size.y, index / size.x / size.y};
}

void run_threadgroup(uint32_t number, char* stacks) {
  const uint3 group = split(number, launch_shape.threadgroups), size = launch_shape.threads_per_threadgroup;
  for (uint32_t i = 0; i < thread_count; ++i) {
    const uint3 at = split(i, size);
    Fiber& fiber = fibers[i];
    fiber = Fiber{};
    char* bottom = stacks + i * (kGuard + kStack) + kGuard;
    fiber.stack = {fresh_stack(bottom + kStack, fiber_main), bottom, kStack, nullptr};
    fiber.place = {{group.x * size.x + at.x, group.y * size.y + at.y, group.z * size.z + at.z}, at, group, i,
                   i % kLanes, i / kLanes};
  }
#ifdef MLXR_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(scratch, sizeof(scratch));
#endif
  std::memset(scratch, 0xff, sizeof(scratch));  // NaN in every float format: what nobody wrote shows
#ifdef MLXR_ADDRESS_SANITIZER
  __asan_poison_memory_region(scratch, sizeof(scratch));
#endif
  std::memset(arrays, 0, sizeof(arrays));
  scratch_used = array_bytes = 0;
  order.shuffle(simdgroup_order, launch_shape.simdgroups);
  order.shuffle(lane_order, kLanes);
#ifdef MLXR_CHECKED
  checks::begin_threadgroup(number);
#endif
  run_threads();
}

bool check_shape() {
  const uint32_t* t = launch->threads;
  thread_count = t[0] * t[1] * t[2];
  if (thread_count == 0 || thread_count > kMaxThreads || thread_count % kLanes != 0)
    report("a threadgroup of %ux%ux%u threads: the dialect takes multiples of 32, to 1024", t[0], t[1], t[2]);
  else if (launch->buffer_count > sizeof(buffer_pointers) / sizeof(void*))
    report("%u arrays are too many", launch->buffer_count);
  return !refused;
}

}  // namespace

void refuse(Site site, const char* format, ...) {
  const size_t size = sizeof(launch->message);
  int used = site.file ? snprintf(launch->message, size, "%s:%d: ", site.file, site.line) : 0;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(launch->message + used, size - size_t(used), format, arguments);
  va_end(arguments);
  refused = true;
  leave_fiber(true);
  __builtin_unreachable();
}

void threadgroup_barrier(int memory, Site site) {
  wait(State::at_barrier, "threadgroup_barrier", 0, memory, site);
}

void simdgroup_barrier(int memory, Site site) { wait(State::meets, "simdgroup_barrier", 0, memory, site); }

const unsigned char* exchange(const void* mine, uint32_t bytes, const char* what, Site site) {
  const uint32_t simdgroup = here->simdgroup, side = parity[simdgroup];
  std::memcpy(meeting[simdgroup][side][here->lane], mine, bytes);
  wait(State::meets, what, bytes, 0, site);
  return meeting[simdgroup][side][0];
}

void check_alignment(const void* p, uint32_t bytes, Site site) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(p);
  // The array that starts last before the place: an overrun is for the other checks to name.
  uintptr_t start = reinterpret_cast<uintptr_t>(scratch);
  if (address - start >= sizeof(scratch)) {
    start = 0;
    for (uint32_t i = 0; i < launch->buffer_count; ++i) {
      const uintptr_t data = reinterpret_cast<uintptr_t>(launch->buffers[i].data);
      if (data <= address && data > start) start = data;
    }
  }
  if ((address - start) % bytes != 0) refuse(site, "a vector access is not aligned to %u bytes", bytes);
}

void* threadgroup_memory(uint32_t id, uint32_t bytes, const char* name, Site site) {
  if (id >= kMaxArrays) refuse(site, "more than %u threadgroup arrays", kMaxArrays);
  Array& array = arrays[id];
  if (!array.declared) {
    array = {true, scratch_used, bytes};
    array_bytes += (bytes + 15) / 16 * 16;
    if (array_bytes > kThreadgroupBytes)
      refuse(site, "threadgroup memory: %u bytes with '%s', 32768 at most", array_bytes, name);
    scratch_used += (bytes + 15) / 16 * 16 + kGap;
    if (array_bytes > launch->threadgroup_bytes) launch->threadgroup_bytes = array_bytes;
#ifdef MLXR_ADDRESS_SANITIZER
    __asan_unpoison_memory_region(scratch + array.offset, bytes);
#endif
#ifdef MLXR_CHECKED
    checks::declared(scratch + array.offset, bytes, name);
#endif
  }
  return scratch + array.offset;
}

}  // namespace mlxr

extern "C" int mlxr_emulate(mlxr::Launch* request) {
  using namespace mlxr;
  launch = request;
  refused = false;
  if (!check_shape()) return 1;
  const uint32_t *t = launch->threads, *g = launch->threadgroups;
  launch_shape = {{t[0], t[1], t[2]}, {g[0], g[1], g[2]}, thread_count / kLanes};
  shape = &launch_shape;
  order = {launch->seed};
  for (uint32_t i = 0; i < launch->buffer_count; ++i) buffer_pointers[i] = launch->buffers[i].data;

  const uint64_t bytes = thread_count * (kGuard + kStack);
  void* stacks = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stacks == MAP_FAILED) {
    report("no memory for %u stacks", thread_count);
    return 1;
  }
  for (uint32_t i = 0; i < thread_count; ++i)
    mprotect(static_cast<char*>(stacks) + i * (kGuard + kStack), kGuard, PROT_NONE);
  const uint32_t count = g[0] * g[1] * g[2];
  uint32_t* groups = new uint32_t[count];
  order.shuffle(groups, count);
#ifdef MLXR_CHECKED
  checks::begin(*launch, stacks, bytes, scratch, sizeof(scratch));
#endif
  for (uint32_t i = 0; i < count && !refused; ++i) run_threadgroup(groups[i], static_cast<char*>(stacks));
#ifdef MLXR_CHECKED
  checks::end();
#endif
  delete[] groups;
  munmap(stacks, bytes);
  return refused ? 1 : 0;
}
