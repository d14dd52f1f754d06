// What became of each chunk, and of each op within the node, as one member's flight record has it: the slices of its
// part of a timeline. Pure; any thread.
#ifndef SHOAL_CLI_CHUNK_SLICES_H_
#define SHOAL_CLI_CHUNK_SLICES_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/flight_record.h"
#include "program/json_text.h"

namespace shoal::cli {

// A push of a rank, or a result for it.
struct FrameName {
  ChunkName chunk;
  uint64_t rank = 0;
  bool is_result = false;

  friend auto operator<=>(const FrameName&, const FrameName&) = default;
};

// nullopt: the entry is of neither, or failed.
std::optional<FrameName> NameOfFrame(const FlightEntry& entry);

struct Slice {
  std::string name;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  Json arguments = Json::object();
  std::vector<Slice> parts;  // within it
  // Arrows that begin or end at times within the slice.
  std::vector<std::pair<FrameName, int64_t>> departures;
  std::vector<std::pair<FrameName, int64_t>> arrivals;
};

// Of one track, or of more, where they overlap.
using Tracks = std::map<std::string, std::vector<Slice>>;

// By the member's clock. A rank has tracks for each peer that it pushed to, with `peer_name` of it, and one for its ops
// within the node; a server one for the chunks that it gathered. What is not done reaches to the failure. `with_group`:
// names of slices begin with the group.
Tracks SliceChunks(const FlightRecord& record, bool with_group,
                   const std::function<std::string(uint64_t peer)>& peer_name);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_CHUNK_SLICES_H_
