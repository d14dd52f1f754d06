// `shoalctl schedulers`: each scheduler of the address, asked by itself.
#ifndef SHOAL_CLI_SCHEDULERS_H_
#define SHOAL_CLI_SCHEDULERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/credentials.h"

namespace shoal::cli {

struct AskedScheduler {
  std::string address;
  absl::Status answer;
  std::string cluster_id = "";  // of the cluster that it answers for
  bool leads = false;           // as it says
  uint64_t answered_in_ms = 0;
};

// Those of a list, or those that a name stands for; `scheduler`: as --scheduler has it. Waits for `timeout_ms` at most
// for each.
std::vector<AskedScheduler> AskEachScheduler(const std::string& scheduler, uint64_t timeout_ms,
                                             const Credentials& credentials = {});

// A row for each, and below why some do not answer.
std::string SchedulersText(const std::vector<AskedScheduler>& schedulers);
// {"schedulers":[{"address":..., "answers":true, "leads":true, "cluster_id":..., "error":""}, ...]}
std::string SchedulersJson(const std::vector<AskedScheduler>& schedulers);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_SCHEDULERS_H_
