#include "perf/rank_process.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "perf/benchmark.h"
#include "perf/explain.h"
#include "perf/report.h"
#include "perf/session.h"

namespace shoal {
namespace {

void Complain(const PerfOptions& options, const std::string& text) {
  std::fprintf(stderr, "shoal-perf rank %u: %s\n", options.rank, text.c_str());
}

void Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

SessionOptions MakeSessionOptions(const PerfOptions& options) {
  SessionOptions session;
  session.scheduler = options.scheduler;
  session.credentials = options.credentials;
  session.job = options.job;
  session.rank = options.rank;
  session.world_size = options.world_size;
  session.min_servers = options.min_servers;
  session.max_chunk_bytes = static_cast<uint32_t>(options.chunk_bytes);
  session.timeout_ms = uint64_t{1000} * options.timeout_s;
  session.net_device = options.net_device;
  session.flight_recorder = options.flight_recorder;
  session.local_rank = options.spawn > 0 ? options.rank : options.local_rank;
  session.local_world_size = options.spawn > 0 ? options.spawn : options.local_world_size;
  session.transports = options.transports;
  session.network_only = options.network_only;
  session.checksums = options.checksums;
  session.split = options.split;
  session.wire = options.wire;
  session.node_reduce = options.node_reduce;
  session.colocation = options.colocation;
  return session;
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file.good()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("can't write --json ", path, "; check that its folder exists and is writable"));
}

int Explain(const PerfOptions& options, const Session& session) {
  bool first = true;
  for (const DataType dtype : options.dtypes) {
    for (const uint64_t bytes : SweepSizes(options)) {
      const absl::StatusOr<shoal_plan> plan = session.Plan(std::max<uint64_t>(bytes / DataTypeSize(dtype), 1), dtype);
      if (!plan.ok()) {
        Complain(options, std::string(plan.status().message()));
        return kExitFailed;
      }
      if (options.rank != 0) continue;
      if (std::exchange(first, false)) Print(ExplainHeader(options, session.group_size(), session.Facts(), *plan));
      Print(ExplainRow(bytes, dtype, *plan));
    }
  }
  return kExitOk;
}

}  // namespace

int RunRank(const PerfOptions& options, const std::vector<std::string>& arguments) {
  RunFacts facts;
  facts.arguments = arguments;
  facts.software_version = shoal_version();
  facts.started_at = TimeNowText();
  facts.machine = GatherNodeFacts();
  if (options.explain && options.spawn == 0 && options.world_size > 1 && options.rank == 0) {
    Complain(options,
             absl::StrCat("--explain rests on what all ", options.world_size,
                          " ranks measure: start it for each of them; this one waits for the others for up to ",
                          options.timeout_s, " s"));
  }
  const absl::StatusOr<std::unique_ptr<Session>> session = Session::Join(MakeSessionOptions(options));
  if (!session.ok()) {
    Complain(options, std::string(session.status().message()));
    return kExitFailed;
  }
  if (options.explain) return Explain(options, **session);
  const bool reports = options.rank == 0;
  facts.cluster = (*session)->Facts();
  if (reports) Print(TableHeader(options, facts));

  std::vector<Measurement> measurements;
  uint64_t wrong = 0;
  const absl::Status status = RunBenchmark(
      options, session->get(),
      [&](const Measurement& measurement) {
        measurements.push_back(measurement);
        wrong += measurement.wrong;
        if (reports) Print(TableRow(measurement));
      },
      [&](const std::string& text) { Complain(options, text); });
  if (!status.ok()) {
    Complain(options, std::string(status.message()));
    return kExitFailed;
  }
  facts.cluster = (*session)->Facts();
  if (!reports) return wrong == 0 ? kExitOk : kExitFailed;
  Print(TableFooter(measurements));
  if (!options.json_path.empty()) {
    const absl::Status written = WriteFile(options.json_path, JsonReport(options, facts, measurements));
    if (!written.ok()) {
      Complain(options, std::string(written.message()));
      return kExitFailed;
    }
  }
  return wrong == 0 ? kExitOk : kExitFailed;
}

}  // namespace shoal
