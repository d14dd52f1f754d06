#include "perf/benchmark.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/hash.h"
#include "perf/test_data.h"

namespace shoal {
namespace {

using Clock = std::chrono::steady_clock;

double MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double ProcessCpuMicroseconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto microseconds = [](const timeval& time) { return time.tv_sec * 1e6 + static_cast<double>(time.tv_usec); };
  return microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
}

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Tensor = std::unique_ptr<std::byte[], FreeMemory>;

// One size, type and operation.
class Case {
 public:
  Case(const PerfOptions& options, Session* session, DataType dtype, ReduceOp op, uint64_t bytes)
      : options_(options), session_(session) {
    result_.dtype = dtype;
    result_.op = op;
    result_.element_count = std::max<uint64_t>(1, bytes / DataTypeSize(dtype));
    result_.bytes = result_.element_count * DataTypeSize(dtype);
    result_.in_flight = options.in_flight;
    result_.rank_count = session->group_size();
  }

  absl::StatusOr<Measurement> Run(const std::function<void(const std::string&)>& complain) {
    if (absl::Status status = Allocate(); !status.ok()) return status;
    for (uint32_t round = 0; round < options_.check_rounds; ++round) {
      for (const NumberKind kind : {NumberKind::kSmallIntegers, NumberKind::kRandom}) {
        if (absl::Status status = Check(kind, round, complain); !status.ok()) return status;
      }
    }
    if (options_.check_rounds > 0) {
      if (absl::Status status = AgreeOnCheck(); !status.ok()) return status;
    }
    if (absl::Status status = Time(); !status.ok()) return status;
    return result_;
  }

 private:
  absl::Status Allocate() {
    constexpr size_t kAlignment = 64;
    const uint64_t rounded = (result_.bytes + kAlignment - 1) / kAlignment * kAlignment;
    for (uint32_t k = 0; k < options_.in_flight; ++k) {
      tensors_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
      if (tensors_.back() == nullptr) {
        return absl::ResourceExhaustedError(absl::StrCat("no memory for ", options_.in_flight, " tensors of ",
                                                         result_.bytes,
                                                         " bytes; use a smaller --maxbytes or --in-flight"));
      }
    }
    return absl::OkStatus();
  }

  // The same on all ranks of the group and in every run, different for every tensor.
  TestData DataOf(NumberKind kind, uint64_t round, uint64_t tensor) const {
    const uint64_t group = options_.split.GroupOf(options_.rank);  // whatever came from another one is wrong
    return {kind, StableHash({static_cast<uint64_t>(kind), round, tensor, result_.element_count, group}),
            WireCodec(result_.dtype, options_.wire), result_.op, session_->group_size()};
  }

  absl::StatusOr<Session::Op> Start(uint64_t tensor) {
    return session_->Start(tensors_[tensor].get(), result_.element_count, result_.dtype, result_.op);
  }

  absl::Status Check(NumberKind kind, uint32_t round, const std::function<void(const std::string&)>& complain) {
    result_.checked = true;
    std::vector<Session::Op> ops;
    for (uint32_t k = 0; k < tensors_.size(); ++k) {
      FillContribution(DataOf(kind, round, k), session_->group_rank(), tensors_[k].get(), result_.element_count);
    }
    for (uint32_t k = 0; k < tensors_.size(); ++k) {
      absl::StatusOr<Session::Op> op = Start(k);
      if (!op.ok()) return op.status();
      ops.push_back(*std::move(op));
    }
    for (uint32_t k = 0; k < tensors_.size(); ++k) {
      if (absl::Status status = session_->Wait(ops[k]); !status.ok()) return status;
      const CheckOutcome outcome = CheckResult(DataOf(kind, round, k), tensors_[k].get(), result_.element_count);
      if (outcome.wrong > 0) {
        complain(absl::StrCat(kind == NumberKind::kRandom ? "random numbers" : "small integers", ", tensor ", k, ": ",
                              outcome.wrong, " wrong; ", outcome.first_wrong));
      }
      result_.wrong += outcome.wrong;
      if (kind == NumberKind::kRandom) result_.digest = DigestBits(result_.digest, tensors_[k].get(), result_.bytes);
    }
    return absl::OkStatus();
  }

  // Sums the counts of wrong elements and compares the digests of the group's ranks.
  absl::Status AgreeOnCheck() {
    int64_t wrong = static_cast<int64_t>(result_.wrong);
    if (absl::Status status = session_->AllReduceOverAll(&wrong, 1, DataType::kInt64, ReduceOp::kSum); !status.ok()) {
      return status;
    }
    result_.wrong = static_cast<uint64_t>(wrong);
    int64_t lowest = static_cast<int64_t>(result_.digest);
    int64_t highest = lowest;
    if (absl::Status status = session_->AllReduce(&lowest, 1, DataType::kInt64, ReduceOp::kMin); !status.ok()) {
      return status;
    }
    if (absl::Status status = session_->AllReduce(&highest, 1, DataType::kInt64, ReduceOp::kMax); !status.ok()) {
      return status;
    }
    if (lowest != highest) return absl::DataLossError("the ranks got results with different bits");
    return absl::OkStatus();
  }

  absl::Status Time() {
    // Signs and powers of two stay normal numbers in a product however often it is multiplied; denormals would be slow.
    const NumberKind kind = result_.op == ReduceOp::kProd ? NumberKind::kSmallIntegers : NumberKind::kRandom;
    for (uint32_t k = 0; k < tensors_.size(); ++k) {
      FillContribution(DataOf(kind, 0, k), session_->group_rank(), tensors_[k].get(), result_.element_count);
    }
    std::vector<double> op_times_us;
    if (absl::Status status = Loop(options_.warmup_iterations, 1, &op_times_us); !status.ok()) return status;
    op_times_us.clear();
    int32_t barrier = 0;
    if (absl::Status status = session_->AllReduceOverAll(&barrier, 1, DataType::kInt32, ReduceOp::kSum); !status.ok()) {
      return status;
    }
    const double cpu_start_us = ProcessCpuMicroseconds();
    const Clock::time_point start = Clock::now();
    if (absl::Status status = Loop(options_.iterations, options_.in_flight, &op_times_us); !status.ok()) return status;
    op_times_us.push_back(MicrosecondsSince(start) / options_.iterations);
    result_.cpu_time_us = (ProcessCpuMicroseconds() - cpu_start_us) / options_.iterations;
    // Replaces every number by that of the slowest rank.
    absl::Status status =
        session_->AllReduceOverAll(op_times_us.data(), op_times_us.size(), DataType::kFloat64, ReduceOp::kMax);
    if (!status.ok()) return status;
    result_.time_us = op_times_us.back();
    op_times_us.pop_back();
    result_.op_time_us = Summarize(op_times_us);
    result_.op_times_us = std::move(op_times_us);
    return session_->AllReduceOverAll(&result_.cpu_time_us, 1, DataType::kFloat64, ReduceOp::kSum);
  }

  // Keeps `in_flight` all-reduces going until `count` are done, on all tensors in turn; appends the time of each.
  absl::Status Loop(uint32_t count, uint32_t in_flight, std::vector<double>* op_times_us) {
    struct Flying {
      Session::Op op;
      Clock::time_point start;
    };
    std::vector<Flying> flying(in_flight);
    for (uint64_t i = 0; i < count + flying.size(); ++i) {
      Flying& slot = flying[i % flying.size()];
      if (slot.op != nullptr) {
        if (absl::Status status = session_->Wait(slot.op); !status.ok()) return status;
        op_times_us->push_back(MicrosecondsSince(slot.start));
        slot.op.reset();
      }
      if (i >= count) continue;
      if (options_.pause_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(options_.pause_us));
      slot.start = Clock::now();
      absl::StatusOr<Session::Op> op = Start(i % tensors_.size());
      if (!op.ok()) return op.status();
      slot.op = *std::move(op);
    }
    return absl::OkStatus();
  }

  const PerfOptions& options_;
  Session* const session_;
  std::vector<Tensor> tensors_;
  Measurement result_;
};

}  // namespace

absl::Status RunBenchmark(const PerfOptions& options, Session* session,
                          const std::function<void(const Measurement&)>& report,
                          const std::function<void(const std::string&)>& complain) {
  for (const DataType dtype : options.dtypes) {
    for (const ReduceOp op : options.ops) {
      if (!CanReduce(dtype, op)) continue;
      for (const uint64_t bytes : SweepSizes(options)) {
        const std::string what = absl::StrCat(bytes, " bytes of ", std::string(DataTypeName(dtype)), ", ",
                                              std::string(ReduceOpName(op)), ": ");
        const absl::StatusOr<Measurement> measured =
            Case(options, session, dtype, op, bytes).Run([&](const std::string& text) {
              complain(absl::StrCat(what, text));
            });
        if (!measured.ok()) {
          return absl::Status(measured.status().code(), absl::StrCat(what, measured.status().message()));
        }
        report(*measured);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace shoal
