#include "net/ucx/ucx_lanes.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "absl/strings/str_split.h"

namespace shoal {
namespace {

using Words = std::vector<std::string>;

// The words of each line that `print` writes.
std::vector<Words> PrintedLines(const std::function<void(FILE*)>& print) {
  std::vector<Words> lines;
  char* text = nullptr;
  size_t size = 0;
  FILE* stream = open_memstream(&text, &size);
  if (stream == nullptr) return lines;
  print(stream);
  fclose(stream);
  for (absl::string_view line : absl::StrSplit(absl::string_view(text, size), '\n')) {
    lines.push_back(absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty()));
  }
  free(text);
  return lines;
}

// What a lane is for stands behind the device's memory domain: "am", "am_bw#0", "rma_bw#1", "wireup", "keepalive".
bool CarriesPayload(const Words& line) {
  bool behind_domain = false;
  for (const std::string& word : line) {
    if (behind_domain && (word.starts_with("am") || word.starts_with("rma") || word.starts_with("tag"))) return true;
    behind_domain = behind_domain || word.find("sysdev[") != std::string::npos;
  }
  return false;
}

}  // namespace

// "#  lane[1]:  2:rc_verbs/rxe0:1.0 md[1]  -> md[1]/ib/sysdev[255] rma_bw#0 am am_bw#0"
std::set<std::string> LanesOf(const UcxApi& api, ucp_ep_h endpoint) {
  std::set<std::string> lanes;
  for (const Words& line : PrintedLines([&](FILE* to) { api.ucp_ep_print_info(endpoint, to); })) {
    if (line.size() < 3 || !line[1].starts_with("lane[")) continue;
    const size_t colon = line[2].find(':');
    const size_t path = line[2].rfind('.');
    if (line[2].find('/') == std::string::npos || colon == std::string::npos || path < colon) continue;
    if (CarriesPayload(line)) lanes.insert(line[2].substr(colon + 1, path - colon - 1));
  }
  return lanes;
}

// "#  resource 2  :  md 1  dev 2  flags -- rc_verbs/rxe0:1"
std::set<std::string> TransportsOf(const UcxApi& api, ucp_context_h context) {
  std::set<std::string> transports;
  for (const Words& line : PrintedLines([&](FILE* to) { api.ucp_context_print_info(context, to); })) {
    if (line.size() > 2 && line[1] == "resource") transports.insert(line.back());
  }
  return transports;
}

}  // namespace shoal
