// `shoalctl timeline` and `shoalctl trace`: the records of a failure, or of a trace, of all members as one picture on
// one clock, in the Trace Event Format that ui.perfetto.dev and chrome://tracing read ("Trace Event Format", Google,
// 2016). Its time 0 is told as `otherData.begins_at_unix_us`, by the wall clock of the first rank's node: by that
// it can be laid beside that rank's profile of the same seconds.
//
// A member is a process there. A rank has tracks for each server that it pushed to, with a slice for each chunk from
// the push until its result has landed; in it what went out, the wait and what came back. A server's I/O thread has
// slices for the chunks that it gathered, with each rank's arrival, and the results that went out. Arrows lead from a
// push to its chunk on the server, and from there to the result on the rank. A rank's ops within its node are on a
// track of their own, with what they did one after the other. Where slices overlap there are several tracks. What else
// happened is on a track of marks. Pure; any thread.
#ifndef SHOAL_CLI_TIMELINE_H_
#define SHOAL_CLI_TIMELINE_H_

#include <string>
#include <vector>

#include "cli/flight_record.h"

namespace shoal::cli {

struct Timeline {
  std::string json;
  std::string summary;  // lines for a person: who is in it, and how well the clocks agree
};

// Of records of one failure or of one trace, at least one. `remarks` on them become part of the summary.
Timeline DrawTimeline(const std::vector<FlightRecord>& records, const std::vector<std::string>& remarks = {});

}  // namespace shoal::cli

#endif  // SHOAL_CLI_TIMELINE_H_
