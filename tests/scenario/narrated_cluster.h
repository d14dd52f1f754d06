// A cluster that takes commands in words and returns, as lines, what its processes said: each frame that a rank sent or
// received, what a rank told its caller and reported to the scheduler, and how much time passed in between.
//
// Everything is recorded at the ranks: what a server sends is said when the rank sees it. Loops run in turn and time is
// the test's, so that the same commands give the same lines. One thread.
//
//   cluster ranks=N servers=N [chunk-bytes=N] [credit=N]   the first command, once
//   open-group NUMBER [ranks=0,1]          of these ranks (all): the scheduler has answered each of them
//   all-reduce NUMBER elements=N [ranks=..] [timeout-ms=N]     the next call of these ranks in the group, a float32 sum
//   move-group NUMBER [ranks=..]           a map of the servers that are left, which these ranks hear of
//   tell-map NUMBER ranks=..               the map of the last move-group, to others
//   abort-group NUMBER ranks=.. reason=SOME_WORDS
//   close-group NUMBER [ranks=..]
//   leave [ranks=..]                       the worker is closed
//   kill-server N, kill-rank N
//   tell-lost N [ranks=..] reason=SOME_WORDS   the scheduler has declared rank N lost
//   drain-server N                         the server takes no new group from now on
//   leave-map N                            the server is in no later map
//   advance-ms N
//   servers                                what each server holds
//
// until=SOME_WORDS stops a command as soon as a line holds these words ("_" stands for a space); otherwise it goes on
// until nothing happens any more. Where it stopped, the next command goes on.
#ifndef SHOAL_TESTS_SCENARIO_NARRATED_CLUSTER_H_
#define SHOAL_TESTS_SCENARIO_NARRATED_CLUSTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/scenario/cluster.h"

namespace shoal {

class NarratedCluster {
 public:
  // What followed from the command. InvalidArgument: it is none, says what is wrong.
  absl::StatusOr<std::vector<std::string>> Do(const std::string& command);

 private:
  struct Words {
    std::string verb;
    std::vector<uint64_t> numbers;             // without a name, in order
    std::map<std::string, uint64_t> settings;  // numbers with a name
    std::map<std::string, std::string> texts;  // "until", "reason"
    std::vector<uint32_t> ranks;               // empty: all

    uint64_t Setting(const std::string& name, uint64_t otherwise) const;
    std::string Text(const std::string& name) const;
  };
  struct Group {
    uint16_t handle = 0;
    std::vector<uint32_t> ranks;
  };
  // A call of one rank, with memory that outlives it.
  struct Call {
    uint64_t group = 0;
    uint64_t op = 0;  // 1, 2, 3, ... in the group
    std::vector<float> data;
  };

  static absl::StatusOr<Words> Parse(const std::string& command);
  absl::Status Perform(const Words& words);
  absl::Status PerformInGroup(const Words& words, uint64_t group);
  absl::Status Start(const Words& words);
  void Submit(uint32_t rank, uint64_t group, const Words& words);
  void Run(const Words& words);
  std::vector<uint32_t> Ranks(const Words& words) const;

  void Say(std::string line);
  void SayOutcomes();
  std::string OutcomeText(uint32_t rank, const WorkerOutcome& outcome) const;
  std::string DoneText(const OpDone& done, const Call& call) const;
  void SayServers();

  std::unique_ptr<Cluster> cluster_;                 // null before the first command
  std::map<std::string, std::string> server_names_;  // by address
  std::map<uint64_t, Group> groups_;                 // by their number
  std::shared_ptr<const ShardMap> newest_map_;
  std::vector<std::vector<std::unique_ptr<Call>>> calls_;  // by rank and ticket
  std::vector<size_t> outcomes_said_;                      // by rank
  std::vector<bool> server_runs_;
  std::vector<std::string> lines_;  // of this command
  uint64_t said_at_ns_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SCENARIO_NARRATED_CLUSTER_H_
