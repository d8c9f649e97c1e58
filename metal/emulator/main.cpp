// The emulator as a program of its own, for sanitizers: reads one launch from a file, writes the arrays back.
// Each array is a heap block of exactly its size, so that AddressSanitizer sees the first byte past its end.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "launch.h"

namespace {

// metal/emulator/sanitized.py writes these, with the array's bytes after each ArrayRecord.
struct LaunchRecord {
  uint32_t threadgroups[3], threads[3];
  uint64_t seed;
  uint32_t buffer_count, unused;
};
struct ArrayRecord {
  uint64_t bytes;
  uint32_t item_bytes, is_constant, is_writable, unused;
  char name[64];
};

[[noreturn]] void fail(const char* what, const char* path) {
  fprintf(stderr, "%s %s\n", what, path);
  exit(3);
}

void read_exactly(void* data, size_t bytes, FILE* file, const char* path) {
  if (bytes != 0 && fread(data, bytes, 1, file) != 1) fail("cannot read", path);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) fail("usage: kernel LAUNCH ARRAYS, not", argv[0]);
  FILE* in = fopen(argv[1], "rb");
  if (!in) fail("cannot open", argv[1]);
  LaunchRecord record;
  read_exactly(&record, sizeof(record), in, argv[1]);
  mlxr::Launch launch{};
  std::memcpy(launch.threadgroups, record.threadgroups, sizeof(launch.threadgroups));
  std::memcpy(launch.threads, record.threads, sizeof(launch.threads));
  launch.seed = record.seed;
  launch.buffer_count = record.buffer_count;
  launch.buffers = static_cast<mlxr::Buffer*>(calloc(record.buffer_count, sizeof(mlxr::Buffer)));
  ArrayRecord* arrays = static_cast<ArrayRecord*>(calloc(record.buffer_count, sizeof(ArrayRecord)));
  for (uint32_t i = 0; i < record.buffer_count; ++i) {
    read_exactly(&arrays[i], sizeof(ArrayRecord), in, argv[1]);
    mlxr::Buffer& buffer = launch.buffers[i];
    buffer.data = malloc(arrays[i].bytes);
    buffer.bytes = arrays[i].bytes;
    buffer.name = arrays[i].name;
    buffer.item_bytes = arrays[i].item_bytes;
    buffer.is_constant = arrays[i].is_constant;
    buffer.is_writable = arrays[i].is_writable;
    read_exactly(buffer.data, buffer.bytes, in, argv[1]);
  }
  fclose(in);

  if (mlxr_emulate(&launch) != 0) {
    fprintf(stderr, "%s\n", launch.message);
    return 2;
  }
  FILE* out = fopen(argv[2], "wb");
  if (!out) fail("cannot open", argv[2]);
  for (uint32_t i = 0; i < launch.buffer_count; ++i)
    if (launch.buffers[i].is_writable && fwrite(launch.buffers[i].data, launch.buffers[i].bytes, 1, out) != 1)
      fail("cannot write", argv[2]);
  if (fclose(out) != 0) fail("cannot write", argv[2]);
  return 0;
}
