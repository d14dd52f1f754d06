// One rank of OpenMPI's all-reduce, timed and checked as shoal-perf does it. Rank 0 writes JSON.
//
// Started by open_mpi.py: open_mpi_rank BYTES ITERATIONS WARMUP IN_FLIGHT. With IN_FLIGHT above 1 it uses
// MPI_Iallreduce. An error of MPI ends all ranks, which is MPI's default.
#include <mpi.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using Tensor = std::vector<float>;

double ProcessCpuMicroseconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto microseconds = [](const timeval& time) { return time.tv_sec * 1e6 + static_cast<double>(time.tv_usec); };
  return microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
}

// -2 .. 2: sums of these are exact in any order.
float SmallInteger(int rank, size_t tensor, size_t element) {
  uint64_t bits = (element + 1) * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(rank) * 0xBF58476D1CE4E5B9u + tensor;
  bits ^= bits >> 29;
  bits *= 0x94D049BB133111EBu;
  bits ^= bits >> 32;
  return static_cast<float>(bits % 5) - 2.0f;
}

void AllReduceAll(std::vector<Tensor>* tensors) {
  std::vector<MPI_Request> requests(tensors->size());
  for (size_t k = 0; k < tensors->size(); ++k) {
    MPI_Iallreduce(MPI_IN_PLACE, (*tensors)[k].data(), static_cast<int>((*tensors)[k].size()), MPI_FLOAT, MPI_SUM,
                   MPI_COMM_WORLD, &requests[k]);
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

// Wrong elements over all ranks.
int64_t Check(std::vector<Tensor>* tensors, int rank, int rank_count) {
  for (size_t k = 0; k < tensors->size(); ++k) {
    for (size_t i = 0; i < (*tensors)[k].size(); ++i) (*tensors)[k][i] = SmallInteger(rank, k, i);
  }
  if (tensors->size() == 1) {
    MPI_Allreduce(MPI_IN_PLACE, (*tensors)[0].data(), static_cast<int>((*tensors)[0].size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  } else {
    AllReduceAll(tensors);
  }
  int64_t wrong = 0;
  for (size_t k = 0; k < tensors->size(); ++k) {
    for (size_t i = 0; i < (*tensors)[k].size(); ++i) {
      float expected = 0;
      for (int other = 0; other < rank_count; ++other) expected += SmallInteger(other, k, i);
      if ((*tensors)[k][i] != expected) ++wrong;
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  return wrong;
}

// Keeps one all-reduce of each tensor going until `count` are done; appends the time of each in microseconds.
void Loop(int count, std::vector<Tensor>* tensors, std::vector<double>* times_us) {
  const size_t in_flight = tensors->size();
  std::vector<MPI_Request> requests(in_flight, MPI_REQUEST_NULL);
  std::vector<double> starts(in_flight);
  for (size_t i = 0; i < static_cast<size_t>(count) + in_flight; ++i) {
    const size_t k = i % in_flight;
    if (i >= in_flight && i - in_flight < static_cast<size_t>(count)) {
      MPI_Wait(&requests[k], MPI_STATUS_IGNORE);
      times_us->push_back((MPI_Wtime() - starts[k]) * 1e6);
    }
    if (i >= static_cast<size_t>(count)) continue;
    Tensor& tensor = (*tensors)[k];
    starts[k] = MPI_Wtime();
    if (in_flight == 1) {
      MPI_Allreduce(MPI_IN_PLACE, tensor.data(), static_cast<int>(tensor.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else {
      MPI_Iallreduce(MPI_IN_PLACE, tensor.data(), static_cast<int>(tensor.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                     &requests[k]);
    }
  }
}

void Report(int64_t wrong, const std::vector<double>& times_us, double loop_us, double cpu_us) {
  std::printf("{\"wrong\": %lld, \"time_us\": %.10g, \"cpu_time_us\": %.10g, \"op_times_us\": [",
              static_cast<long long>(wrong), loop_us, cpu_us);
  for (size_t i = 0; i < times_us.size(); ++i) std::printf("%s%.10g", i == 0 ? "" : ", ", times_us[i]);
  std::printf("]}\n");
}

}  // namespace

int main(int argument_count, char** arguments) {
  MPI_Init(&argument_count, &arguments);
  int rank = 0;
  int rank_count = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &rank_count);
  if (argument_count != 5) {
    if (rank == 0) std::fprintf(stderr, "usage: %s BYTES ITERATIONS WARMUP IN_FLIGHT\n", arguments[0]);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const size_t element_count = std::strtoull(arguments[1], nullptr, 10) / sizeof(float);
  const int iterations = std::atoi(arguments[2]);
  const int warmup = std::atoi(arguments[3]);
  std::vector<Tensor> tensors(std::strtoull(arguments[4], nullptr, 10), Tensor(element_count));

  const int64_t wrong = Check(&tensors, rank, rank_count);
  for (Tensor& tensor : tensors) {
    for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = SmallInteger(rank, 0, i) * 0.37f + 0.1f;
  }
  std::vector<double> times_us;
  Loop(warmup, &tensors, &times_us);
  times_us.clear();
  MPI_Barrier(MPI_COMM_WORLD);
  double cpu_us = ProcessCpuMicroseconds();
  const double start = MPI_Wtime();
  Loop(iterations, &tensors, &times_us);
  times_us.push_back((MPI_Wtime() - start) * 1e6 / iterations);
  cpu_us = (ProcessCpuMicroseconds() - cpu_us) / iterations;
  MPI_Allreduce(MPI_IN_PLACE, times_us.data(), static_cast<int>(times_us.size()), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &cpu_us, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  const double loop_us = times_us.back();
  times_us.pop_back();
  if (rank == 0) Report(wrong, times_us, loop_us, cpu_us);
  MPI_Finalize();
  return 0;
}
