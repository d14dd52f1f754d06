#include "cli/flight_fetch.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shoal::cli {

absl::StatusOr<FlightRecords> FetchFlightRecords(const std::string& job, uint64_t group, ClusterClient* client) {
  const absl::StatusOr<v1::FlightRecords> kept = client->GetFlightRecords(job, group, 0);
  if (!kept.ok()) return kept.status();
  FlightRecords found;
  for (int i = 0; i < kept->members_size(); ++i) {
    const absl::StatusOr<v1::FlightRecords> with_record =
        client->GetFlightRecords(kept->job_name(), kept->group_id(), static_cast<uint32_t>(i + 1));
    if (!with_record.ok()) return with_record.status();
    absl::StatusOr<FlightRecord> record = ParseFlightRecord(with_record->record());
    if (record.ok()) {
      found.records.push_back(*std::move(record));
    } else {
      found.remarks.push_back(absl::StrCat("What ", kept->members(i), " sent ", record.status().message(), "."));
    }
  }
  if (group == 0 && kept->other_group_ids_size() > 0) {
    found.remarks.push_back(absl::StrCat("Records of group ", absl::StrJoin(kept->other_group_ids(), ", "),
                                         " of this job are not drawn: --group N draws those of one."));
  }
  if (found.records.empty()) {
    return absl::UnavailableError(absl::StrCat("the scheduler has no flight record of group ", kept->group_id(),
                                               " that can be read\n  ", absl::StrJoin(found.remarks, "\n  ")));
  }
  std::sort(found.records.begin(), found.records.end(),
            [](const FlightRecord& left, const FlightRecord& right) { return left.member < right.member; });
  return found;
}

}  // namespace shoal::cli
