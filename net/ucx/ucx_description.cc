// What moves the bytes, in words.
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "net/ucx/ucx_connections.h"

namespace shoal {
namespace {

// UCX 1.13 has no query for the transports of an endpoint, but it prints them:
//   "#  lane[1]:  1:tcp/lo.0 md[1]  -> md[1]/tcp/sysdev[255] am am_bw#0 wireup"
std::set<std::string> TransportsOf(ucp_ep_h endpoint) {
  std::set<std::string> transports;
  char* text = nullptr;
  size_t size = 0;
  FILE* stream = open_memstream(&text, &size);
  if (stream == nullptr) return transports;
  ucp_ep_print_info(endpoint, stream);
  fclose(stream);
  for (absl::string_view line : absl::StrSplit(absl::string_view(text, size), '\n')) {
    const size_t lane = line.find("lane[");
    const size_t slash = line.find('/', lane);
    if (lane == absl::string_view::npos || slash == absl::string_view::npos) continue;
    const size_t colon = line.rfind(':', slash);
    const size_t dot = line.find_first_of(". ", slash);
    if (colon == absl::string_view::npos || colon < lane || dot == absl::string_view::npos) continue;
    transports.insert(std::string(line.substr(colon + 1, dot - colon - 1)));
  }
  free(text);
  return transports;
}

}  // namespace

std::string UcxTransport::description() const {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucp_get_version(&major, &minor, &release);
  std::set<std::string> transports;
  for (const auto& [id, peer] : peers_) {
    if (peer->state == PeerState::kUp) transports.merge(TransportsOf(peer->endpoint));
  }
  const std::string what =
      transports.empty()
          ? absl::StrCat(options_.transports.empty() ? "any transport" : options_.transports, " (not connected)")
          : absl::StrJoin(transports, ",");
  return absl::StrCat("ucx ", major, ".", minor, ".", release, ": ", what);
}

}  // namespace shoal
