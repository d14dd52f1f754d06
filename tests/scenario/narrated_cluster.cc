#include "tests/scenario/narrated_cluster.h"

#include <functional>
#include <numeric>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/overloaded.h"
#include "net/forwarding_transport.h"
#include "tests/scenario/frame_text.h"

namespace shoal {
namespace {

std::vector<std::string> SplitAt(const std::string& text, char separator) {
  return absl::StrSplit(text, separator, absl::SkipEmpty());
}

// Tells what a rank sends to each server and hears from it.
class NarratingTransport final : public ForwardingTransport {
 public:
  NarratingTransport(std::unique_ptr<Transport> below, uint32_t rank,
                     const std::map<std::string, std::string>* server_names, std::function<void(std::string)> say)
      : ForwardingTransport(std::move(below)),
        rank_(absl::StrCat("rank ", rank)),
        server_names_(server_names),
        say_(std::move(say)) {}

  absl::StatusOr<PeerId> Connect(const std::string& address) override {
    absl::StatusOr<PeerId> peer = below()->Connect(address);
    if (peer.ok()) servers_[*peer] = server_names_->at(address);
    return peer;
  }

  absl::Status SendNote(PeerId peer, std::span<const std::byte> note) override {
    absl::Status status = below()->SendNote(peer, note);
    if (status.ok()) SaySent(peer, note);
    return status;
  }

  absl::Status Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                    uint64_t token) override {
    absl::Status status = below()->Send(peer, header, payload, token);
    if (status.ok()) SaySent(peer, header);
    return status;
  }

  std::span<const TransportEvent> Poll() override {
    const std::span<const TransportEvent> events = below()->Poll();
    for (const TransportEvent& event : events) {
      if (event.kind == TransportEventKind::kNote || event.kind == TransportEventKind::kOffered) {
        say_(absl::StrCat(servers_[event.peer], " -> ", rank_, ": ", FrameText(event.bytes)));
      } else if (event.kind == TransportEventKind::kPeerDown && !event.status.ok()) {
        say_(absl::StrCat(servers_[event.peer], " x ", rank_, ": ", event.status.message()));
      }
    }
    return events;
  }

 private:
  void SaySent(PeerId peer, std::span<const std::byte> frame) {
    say_(absl::StrCat(rank_, " -> ", servers_[peer], ": ", FrameText(frame)));
  }

  const std::string rank_;
  const std::map<std::string, std::string>* const server_names_;
  const std::function<void(std::string)> say_;
  std::map<PeerId, std::string> servers_;
};

// Whole numbers, so that a sum has one value whatever the order: a wrong one shows.
float Contribution(uint32_t rank, uint64_t op, size_t element) {
  return static_cast<float>((rank + 1) * op + element % 7);
}

}  // namespace

uint64_t NarratedCluster::Words::Setting(const std::string& name, uint64_t otherwise) const {
  const auto found = settings.find(name);
  return found == settings.end() ? otherwise : found->second;
}

std::string NarratedCluster::Words::Text(const std::string& name) const {
  const auto found = texts.find(name);
  return found == texts.end() ? "" : found->second;
}

absl::StatusOr<NarratedCluster::Words> NarratedCluster::Parse(const std::string& command) {
  Words words;
  for (const std::string& word : SplitAt(command, ' ')) {
    const size_t equals = word.find('=');
    const std::string name = equals == std::string::npos ? "" : word.substr(0, equals);
    const std::string value = equals == std::string::npos ? word : word.substr(equals + 1);
    uint64_t number = 0;
    if (name.empty() && words.verb.empty()) {
      words.verb = word;
    } else if (name == "until" || name == "reason") {
      words.texts[name] = absl::StrReplaceAll(value, {{"_", " "}});
    } else if (name == "ranks" && words.verb != "cluster") {
      for (const std::string& rank : SplitAt(value, ',')) {
        if (!absl::SimpleAtoi(rank, &number)) return absl::InvalidArgumentError(absl::StrCat(rank, " is no rank"));
        words.ranks.push_back(static_cast<uint32_t>(number));
      }
    } else if (!absl::SimpleAtoi(value, &number)) {
      return absl::InvalidArgumentError(absl::StrCat("\"", word, "\" is no number"));
    } else if (name.empty()) {
      words.numbers.push_back(number);
    } else {
      words.settings[name] = number;
    }
  }
  return words;
}

absl::StatusOr<std::vector<std::string>> NarratedCluster::Do(const std::string& command) {
  lines_.clear();
  const absl::StatusOr<Words> words = Parse(command);
  if (!words.ok()) return words.status();
  if (cluster_ != nullptr) said_at_ns_ = cluster_->now_ns();
  if (absl::Status status = Perform(*words); !status.ok()) return status;
  return std::move(lines_);
}

absl::Status NarratedCluster::Perform(const Words& words) {
  if (words.verb == "cluster") return Start(words);
  if (cluster_ == nullptr) return absl::FailedPreconditionError("the first command is: cluster ranks=N servers=N");
  for (const uint32_t rank : words.ranks) {
    if (rank >= cluster_->worker_count()) return absl::InvalidArgumentError(absl::StrCat("there is no rank ", rank));
  }
  if (words.verb == "servers") {
    SayServers();
    return absl::OkStatus();
  }
  if (words.verb == "leave") {
    for (const uint32_t rank : Ranks(words)) {
      cluster_->Command(rank, ShutdownCommand{cluster_->now_ns() + 10 * kNsPerS});
    }
    Run(words);
    return absl::OkStatus();
  }
  if (words.numbers.size() != 1) return absl::InvalidArgumentError("a number is missing, or the command");
  const auto number = static_cast<uint32_t>(words.numbers[0]);
  if (words.verb == "kill-rank" && number < cluster_->worker_count()) {
    cluster_->KillWorker(number);
  } else if (words.verb == "tell-lost" && number < cluster_->worker_count()) {
    for (const uint32_t rank : Ranks(words)) {
      if (rank == number) continue;
      cluster_->Command(rank, RankLostCommand{JobRank(number), absl::StrCat("node-", number), words.Text("reason")});
    }
  } else if (words.verb == "kill-server" && number < cluster_->server_count()) {
    cluster_->KillServer(number);
    server_runs_[number] = false;
  } else if (words.verb == "drain-server" && number < cluster_->server_count()) {
    cluster_->DrainServer(number);
  } else if (words.verb == "leave-map" && number < cluster_->server_count()) {
    cluster_->TakeOutOfMaps(number);
  } else if (words.verb == "advance-ms") {
    cluster_->AdvanceBy(number * kNsPerMs);
  } else {
    return PerformInGroup(words, number);
  }
  Run(words);
  return absl::OkStatus();
}

absl::Status NarratedCluster::PerformInGroup(const Words& words, uint64_t group) {
  const std::vector<uint32_t> ranks = Ranks(words);
  if (words.verb == "open-group") groups_[group] = {static_cast<uint16_t>(groups_.size()), ranks};
  if (!groups_.contains(group)) return absl::InvalidArgumentError(absl::StrCat("there is no ", words.verb, " ", group));
  const GroupHandle handle(groups_[group].handle);
  if (words.verb == "open-group") {
    cluster_->OpenGroup(group, handle.value(), ranks);
  } else if (words.verb == "all-reduce") {
    for (const uint32_t rank : ranks) Submit(rank, group, words);
  } else if (words.verb == "move-group" || words.verb == "tell-map") {
    if (words.verb == "move-group") newest_map_ = cluster_->NextMap();
    for (const uint32_t rank : ranks) cluster_->Command(rank, MoveGroupCommand{GroupId(group), newest_map_});
  } else if (words.verb == "abort-group") {
    for (const uint32_t rank : ranks) cluster_->Command(rank, AbortGroupCommand{handle, words.Text("reason")});
  } else if (words.verb == "close-group") {
    for (const uint32_t rank : ranks) cluster_->Command(rank, CloseGroupCommand{handle});
  } else {
    return absl::InvalidArgumentError(absl::StrCat("there is no command ", words.verb));
  }
  Run(words);
  return absl::OkStatus();
}

absl::Status NarratedCluster::Start(const Words& words) {
  if (cluster_ != nullptr) return absl::FailedPreconditionError("there is a cluster already");
  ClusterOptions options{.workers = static_cast<uint32_t>(words.Setting("ranks", 0)),
                         .servers = static_cast<uint32_t>(words.Setting("servers", 0)),
                         .max_chunk_bytes = static_cast<uint32_t>(words.Setting("chunk-bytes", 1024)),
                         .credit_chunks = static_cast<uint32_t>(words.Setting("credit", 4)),
                         .in_turn = true};
  if (options.workers == 0 || options.servers == 0) return absl::InvalidArgumentError("give ranks=N servers=N");
  options.after_each_turn = [this] { SayOutcomes(); };
  uint32_t transports = 0;
  options.wrap = [&](std::unique_ptr<Transport> below) -> std::unique_ptr<Transport> {
    if (transports++ < options.servers) return below;
    return std::make_unique<NarratingTransport>(std::move(below), transports - options.servers - 1, &server_names_,
                                                [this](std::string line) { Say(std::move(line)); });
  };
  cluster_ = std::make_unique<Cluster>(options);
  for (uint32_t k = 0; k < options.servers; ++k) {
    server_names_[cluster_->server_address(k)] = absl::StrCat("server-", k);
  }
  calls_.resize(options.workers);
  outcomes_said_.resize(options.workers);
  server_runs_.assign(options.servers, true);
  return absl::OkStatus();
}

std::vector<uint32_t> NarratedCluster::Ranks(const Words& words) const {
  if (!words.ranks.empty()) return words.ranks;
  std::vector<uint32_t> all(cluster_->worker_count());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void NarratedCluster::Submit(uint32_t rank, uint64_t group, const Words& words) {
  std::vector<std::unique_ptr<Call>>& calls = calls_[rank];
  const uint64_t ticket = calls.size();
  uint64_t op = 1;
  for (const std::unique_ptr<Call>& call : calls) op += call->group == group ? 1 : 0;
  calls.push_back(std::make_unique<Call>(Call{group, op, std::vector<float>(words.Setting("elements", 0))}));
  std::vector<float>& data = calls.back()->data;
  for (size_t i = 0; i < data.size(); ++i) data[i] = Contribution(rank, op, i);
  const uint64_t timeout_ms = words.Setting("timeout-ms", 0);
  cluster_->Submit(rank, groups_.at(group).handle, ticket, std::as_writable_bytes(std::span(data)), DataType::kFloat32,
                   ReduceOp::kSum, 1.0, timeout_ms == 0 ? kNoDeadline : timeout_ms * kNsPerMs);
}

void NarratedCluster::Run(const Words& words) {
  const std::string until = words.Text("until");
  cluster_->RunUntil([&] {
    if (until.empty()) return false;
    for (const std::string& line : lines_) {
      if (line.find(until) != std::string::npos) return true;
    }
    return false;
  });
}

void NarratedCluster::Say(std::string line) {
  if (const uint64_t now_ns = cluster_->now_ns(); now_ns != said_at_ns_) {
    lines_.push_back(absl::StrCat("(", static_cast<double>(now_ns - said_at_ns_) / kNsPerMs, " ms later)"));
    said_at_ns_ = now_ns;
  }
  lines_.push_back(std::move(line));
}

void NarratedCluster::SayOutcomes() {
  for (uint32_t rank = 0; rank < outcomes_said_.size(); ++rank) {
    const WorkerOutcomes& outcomes = cluster_->outcomes(rank);
    for (; outcomes_said_[rank] < outcomes.size(); ++outcomes_said_[rank]) {
      Say(absl::StrCat("rank ", rank, OutcomeText(rank, outcomes[outcomes_said_[rank]])));
    }
  }
}

std::string NarratedCluster::OutcomeText(uint32_t rank, const WorkerOutcome& outcome) const {
  const auto group_of = [this](GroupHandle handle) {
    for (const auto& [number, group] : groups_) {
      if (GroupHandle(group.handle) == handle) return absl::StrCat("group ", number);
    }
    return std::string("no group");
  };
  return std::visit(
      Overloaded{
          [&](const GroupOpened& opened) {
            if (opened.status.ok()) return absl::StrCat(" tells its caller: ", group_of(opened.group), " is open");
            return absl::StrCat(" tells its caller: ", group_of(opened.group),
                                " is not open: ", opened.status.ToString());
          },
          [&](const OpDone& done) { return DoneText(done, *calls_[rank][done.ticket]); },
          [&](const GroupBroken& broken) {
            return absl::StrCat(" tells its caller: ", group_of(broken.group),
                                " is broken: ", broken.status.ToString());
          },
          [&](const GroupClosed& closed) {
            return absl::StrCat(" tells its caller: ", group_of(closed.group), " is closed");
          },
          [](const LinkMeasured&) { return std::string(" tells its caller: the link is measured"); },
          [](const ServerTrouble& trouble) {
            return absl::StrCat(" -> scheduler: group ", trouble.group.value(), " can't go on with server-",
                                trouble.server.value() - 1, " in epoch ", trouble.epoch.value(), " (",
                                trouble.reachable ? "reached again" : "out of reach", "): ", trouble.reason);
          },
          [](const GroupFailure& failure) {
            return absl::StrCat(" -> scheduler: has given up group ", failure.group.value(), ": ", failure.reason);
          },
          [](const WaitReported& wait) { return absl::StrCat(" logs: ", wait.line); },
          [](const ShutdownDone&) { return std::string(" tells its caller: the worker is closed"); },
      },
      outcome);
}

std::string NarratedCluster::DoneText(const OpDone& done, const Call& call) const {
  if (!done.status.ok()) {
    return absl::StrCat(" tells its caller: all-reduce ", call.op, " failed: ", done.status.ToString());
  }
  size_t wrong = 0;
  for (size_t i = 0; i < call.data.size(); ++i) {
    float expected = 0;
    for (const uint32_t rank : groups_.at(call.group).ranks) expected += Contribution(rank, call.op, i);
    wrong += call.data[i] == expected ? 0 : 1;
  }
  return absl::StrCat(" tells its caller: all-reduce ", call.op, " is done, ",
                      wrong == 0 ? "the sum is right" : absl::StrCat(wrong, " elements ARE WRONG"));
}

void NarratedCluster::SayServers() {
  for (uint32_t k = 0; k < cluster_->server_count(); ++k) {
    if (!server_runs_[k]) {
      Say(absl::StrCat("server-", k, " is dead"));
      continue;
    }
    const ServerCounters counters = cluster_->server_counters(k);
    Say(absl::StrCat("server-", k, ": ", counters.peers, " connections, ", counters.groups_open, " groups, ",
                     counters.slot_memory_used_bytes, " bytes of slots in use, ", counters.chunks_reduced,
                     " chunks summed so far"));
  }
}

}  // namespace shoal
