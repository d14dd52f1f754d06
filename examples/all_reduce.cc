// All-reduce from C++ through libshoal.so: one process a rank, started by hand in any order.
//
//   build/bin/all_reduce HOST:PORT WORLD_SIZE RANK
//
// Each rank contributes a vector filled with rank + 1, many all-reduces are in flight at once, and each element must
// come back as 1 + 2 + ... + WORLD_SIZE. The whole interface is worker/include/shoal/worker.h.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "shoal/worker.h"

namespace {

constexpr size_t kElements = 1 << 20;
constexpr size_t kInFlight = 8;

int Fail(const char* what, const shoal_error& error) {
  std::fprintf(stderr, "%s: %s: %s\n", what, shoal_code_name(error.code), error.message);
  return EXIT_FAILURE;
}

// Starts kInFlight all-reduces, then waits for them in turn.
int ReduceAll(shoal_group* group, uint32_t rank, uint32_t world_size) {
  shoal_error error = {};
  shoal_all_reduce_options options = {};
  options.dtype = SHOAL_FLOAT32;
  options.op = SHOAL_SUM;
  std::vector<std::vector<float>> tensors(kInFlight, std::vector<float>(kElements, static_cast<float>(rank + 1)));
  std::vector<shoal_op*> ops;
  for (std::vector<float>& tensor : tensors) {
    shoal_op* op = nullptr;
    if (shoal_all_reduce(group, tensor.data(), tensor.size(), &options, &op, &error) != SHOAL_OK) {
      return Fail("all-reduce", error);
    }
    ops.push_back(op);
  }
  uint64_t wrong = 0;
  const uint32_t sum_of_ranks = world_size * (world_size + 1) / 2;
  const auto expected = static_cast<float>(sum_of_ranks);
  for (size_t i = 0; i < ops.size(); ++i) {
    if (shoal_op_wait(ops[i], UINT64_MAX, &error) != SHOAL_OK) return Fail("waiting for an all-reduce", error);
    std::printf("all-reduce %zu: %.3f ms\n", i, static_cast<double>(shoal_op_duration_ns(ops[i])) / 1e6);
    shoal_op_release(ops[i]);
    for (const float value : tensors[i]) wrong += value != expected ? 1 : 0;
  }
  std::printf("rank %u of %u: %zu elements, %llu wrong\n", rank, world_size, kInFlight * kElements,
              static_cast<unsigned long long>(wrong));
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s SCHEDULER_HOST:PORT WORLD_SIZE RANK\n", argv[0]);
    return EXIT_FAILURE;
  }
  if (shoal_abi_version() != SHOAL_ABI_VERSION) {
    std::fprintf(stderr, "libshoal.so %s does not fit the header this was compiled with\n", shoal_version());
    return EXIT_FAILURE;
  }
  shoal_worker_options worker_options = {};
  worker_options.scheduler = argv[1];
  worker_options.job_name = "all_reduce_example";
  worker_options.world_size = static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10));
  worker_options.rank = static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10));
  shoal_worker* worker = nullptr;
  shoal_error error = {};
  if (shoal_worker_connect(&worker_options, &worker, &error) != SHOAL_OK) return Fail("joining the job", error);

  shoal_group_options group_options = {};
  group_options.name = "world";
  shoal_group* group = nullptr;
  int exit_code = EXIT_FAILURE;
  if (shoal_group_create(worker, &group_options, &group, &error) != SHOAL_OK) {
    Fail("creating the group", error);
  } else {
    exit_code = ReduceAll(group, worker_options.rank, worker_options.world_size);
  }
  shoal_group_close(group);
  shoal_worker_close(worker);
  return exit_code;
}
