// A text file of commands, each followed by what it made the processes of a cluster say.
//
//   # A comment, and what the scenario is about.
//   a command
//   ----
//   a line that was said
//   another
//
// The output ends with an empty line. In the manner of etcd-io/raft's testdata. Pure, but for ReadFile and
// WriteTranscript.
#ifndef SHOAL_TESTS_SCENARIO_TRANSCRIPT_H_
#define SHOAL_TESTS_SCENARIO_TRANSCRIPT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shoal {

struct TranscriptStep {
  std::vector<std::string> before;  // comments and empty lines, as they are
  std::string command;
  std::vector<std::string> output;
};

struct Transcript {
  std::vector<TranscriptStep> steps;
  std::vector<std::string> after;  // comments and empty lines at the end
};

// InvalidArgument names the line of a command without "----".
absl::StatusOr<Transcript> ParseTranscript(const std::string& text);
std::string TranscriptText(const Transcript& transcript);

// The lines of both, those that are only in `expected` after "- ", those only in `actual` after "+ "; of what is equal
// two lines around each difference. Empty if they are equal.
std::string LineDifference(const std::string& expected, const std::string& actual);

// NotFound, Unavailable: the file can't be read, or written.
absl::StatusOr<std::string> ReadFile(const std::string& path);
absl::Status WriteTranscript(const std::string& path, const std::string& text);

}  // namespace shoal

#endif  // SHOAL_TESTS_SCENARIO_TRANSCRIPT_H_
