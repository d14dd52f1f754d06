// The public C function that measures a way (worker/include/shoal/worker.h).
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "net/data_plane/data_plane.h"
#include "process/clock.h"
#include "proto/credentials.h"
#include "worker/library/c_boundary.h"
#include "worker/library/rank_keys.h"
#include "worker/library/way_measurement.h"
#include "worker/rpc/get_ticket.h"

namespace shoal {
namespace {

constexpr size_t kMaxAddressesBytes = 4096;
constexpr uint64_t kMaxDurationMs = 60'000;

absl::Status MeasureWayInto(const shoal_way_options* options, shoal_way* way) {
  if (absl::Status status = CheckNotNull(options, "options"); !status.ok()) return status;
  if (absl::Status status = CheckNotNull(way, "way"); !status.ok()) return status;
  const absl::StatusOr<std::string> addresses =
      RequiredText(options->addresses, "options->addresses", kMaxAddressesBytes);
  if (!addresses.ok()) return addresses.status();
  WayToMeasure to_measure{.addresses = absl::StrSplit(*addresses, ',')};
  if (options->connect_timeout_ms != 0) to_measure.connect_timeout_ms = options->connect_timeout_ms;
  if (options->duration_ms != 0) to_measure.duration_ms = options->duration_ms;
  if (to_measure.duration_ms > kMaxDurationMs) {
    return absl::InvalidArgumentError(
        absl::StrCat("options->duration_ms is ", to_measure.duration_ms, ", and may be ", kMaxDurationMs, " at most"));
  }
  DataPlaneOptions data_plane;
  data_plane.same_node = false;
  data_plane.network.net_device = OptionalText(options->net_device, "");
  data_plane.network.transports = OptionalText(options->transports, data_plane.network.transports);
  RankKeys keys;
  data_plane.keys = &keys;
  const absl::StatusOr<std::string> scheduler =
      RequiredText(options->scheduler, "options->scheduler", kMaxAddressesBytes);
  if (!scheduler.ok()) return scheduler.status();
  const absl::StatusOr<Credentials> credentials = Credentials::Load(CredentialFilesOf(*options), nullptr);
  if (!credentials.ok()) return credentials.status();
  absl::StatusOr<ConnectionTicket> ticket =
      GetTicket(*scheduler, DeadlineIn(to_measure.connect_timeout_ms), *credentials);
  if (!ticket.ok()) return ticket.status();
  keys.SetTicket(*std::move(ticket));
  const absl::StatusOr<std::unique_ptr<Transport>> transport = MakeDataPlaneTransport(data_plane);
  if (!transport.ok()) return transport.status();
  const absl::StatusOr<WayFacts> facts = MeasureWay(to_measure, transport->get());
  if (!facts.ok()) return facts.status();
  way->round_trip_ns = facts->round_trip_ns;
  way->bytes_per_s = facts->bytes_per_s;
  way->processor_share = facts->processor_share;
  way->transports[facts->transports.copy(way->transports, sizeof(way->transports) - 1)] = '\0';
  return absl::OkStatus();
}

}  // namespace
}  // namespace shoal

extern "C" shoal_code shoal_measure_way(const shoal_way_options* options, shoal_way* way, shoal_error* error) {
  return shoal::Guarded(error, [&] { return shoal::MeasureWayInto(options, way); });
}
