// Drives a WorkerMachine by hand: commands and events in, actions sorted by kind and outcomes out.
//
// Server k of the map is reached by connection k as peer 100 + k (plus 1000 for each reconnection). What the machine
// asked for stays listed until a test takes it or Clear()s it.
#ifndef SHOAL_TESTS_UNIT_WORKER_MACHINE_WORKER_DRIVER_H_
#define SHOAL_TESTS_UNIT_WORKER_MACHINE_WORKER_DRIVER_H_

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/token.h"
#include "gtest/gtest.h"
#include "worker/machine/worker_machine.h"

namespace shoal {

inline constexpr uint64_t kChunkElements = 256;  // float32 in the 1024 bytes of a WorkerDriver's chunks

struct SentNote {
  PeerId peer;
  FrameHeader header;
  std::vector<std::byte> body;

  std::string text() const { return DecodeText(body); }
};

struct Published {
  ElementRange elements;
  size_t copies_before = 0;   // to tensors and to what is kept, so far
  uint32_t contributors = 0;  // nodes; 0: they are not counted

  friend bool operator==(const Published&, const Published&) = default;
};

class WorkerDriver {
 public:
  static std::shared_ptr<const ShardMap> Map(uint32_t servers, uint64_t epoch = 3) {
    std::vector<Shard> shards;
    for (uint32_t k = 0; k < servers; ++k) {
      shards.push_back({.server = ServerId(k + 1),
                        .incarnation = Incarnation(50 + k),
                        .server_name = absl::StrCat("server-", k),
                        .address = absl::StrCat("10.0.0.", k, ":7000")});
    }
    return std::make_shared<ShardMap>(*ShardMap::Make(Epoch(epoch), std::move(shards)));
  }

  static std::shared_ptr<GroupInfo> Info(uint32_t rank, uint32_t size, uint32_t servers, uint64_t id = 1) {
    auto info = std::make_shared<GroupInfo>();
    info->id = GroupId(id);
    info->name = "world";
    info->rank = Rank(rank);
    for (uint32_t r = 0; r < size; ++r) {
      info->job_ranks.push_back(JobRank(r));
      info->nodes.push_back(absl::StrCat("node-", r));
    }
    info->max_chunk_bytes = 1024;
    info->token.assign(kGroupTokenBytes, std::byte{6});
    info->map = Map(servers);
    return info;
  }

  explicit WorkerDriver(const WorkerMachineOptions& options = {}) : machine_(options), memory_(1 << 20) {}
  // With a group that is open (OpenAll).
  WorkerDriver(uint32_t size, uint32_t servers, uint32_t credit, const WorkerMachineOptions& options = {})
      : WorkerDriver(options) {
    OpenAll(size, servers, credit);
  }

  // ---- commands ----

  void Command(const WorkerCommand& command) {
    std::visit([this](const auto& event) { machine_.OnEvent(event, now, &actions_); }, command);
    Settle();
  }
  void Open(std::shared_ptr<const GroupInfo> info, uint16_t handle = 0, uint64_t deadline_ns = 60 * kNsPerS) {
    infos_[handle] = info;
    Command(OpenGroupCommand{GroupHandle(handle), std::move(info), deadline_ns});
  }
  void Submit(uint64_t ticket, uint64_t elements, uint16_t handle = 0, uint64_t deadline_ns = kNoDeadline) {
    const absl::StatusOr<OpLayout> layout = OpLayout::Make(*infos_.at(handle), elements, DataType::kFloat32);
    ASSERT_TRUE(layout.ok()) << layout.status();
    Command(SubmitCommand{.group = GroupHandle(handle),
                          .ticket = ticket,
                          .data = memory_.data() + (ticket % 16) * (64 << 10),
                          .layout = *layout,
                          .submitted_ns = now.monotonic_ns,
                          .deadline_ns = deadline_ns});
  }

  // Of a tensor on a device, which is not ready yet.
  void SubmitOnDevice(uint64_t ticket, uint64_t elements, uint64_t deadline_ns = kNoDeadline, uint16_t handle = 0) {
    const absl::StatusOr<OpLayout> layout = OpLayout::Make(*infos_.at(handle), elements, DataType::kFloat32);
    ASSERT_TRUE(layout.ok()) << layout.status();
    Command(SubmitCommand{.group = GroupHandle(handle),
                          .ticket = ticket,
                          .data = memory_.data() + (ticket % 16) * (64 << 10),
                          .on_device = true,
                          .layout = *layout,
                          .submitted_ns = now.monotonic_ns,
                          .deadline_ns = deadline_ns});
  }
  // A group of three ranks on one server that goes on as long as so many are left. This is rank 0.
  void OpenGoingOn(uint32_t min_ranks) {
    const std::shared_ptr<GroupInfo> info = Info(0, 3, 1, 1);
    info->min_ranks = min_ranks;
    Open(info);
    Up(0);
    Welcome(0, 4);
  }
  // Moves that group to epoch 4, without these ranks.
  void MoveWithout(std::vector<Rank> lost, bool all_committed = false) {
    Command(
        MoveGroupCommand{.group = GroupId(1),
                         .map = Map(1, 4),
                         .all_committed = all_committed,
                         .sealed_roster = SealRoster(TokenKey{}, GroupId(1), Epoch(4), Roster(3, std::move(lost)))});
  }
  void TensorReady(uint64_t ticket, absl::Status status = absl::OkStatus(), uint16_t handle = 0) {
    Command(TensorReadyCommand{.group = GroupHandle(handle), .ticket = ticket, .status = std::move(status)});
  }
  void DeviceDone(uint64_t ticket, absl::Status status = absl::OkStatus(), uint16_t handle = 0) {
    Command(DeviceDoneCommand{.group = GroupHandle(handle), .ticket = ticket, .status = std::move(status)});
  }
  void EndCopy(const DeviceCopy& copy, absl::Status status = absl::OkStatus()) {
    machine_.OnEvent(DeviceCopyEnded{copy.token, std::move(status)}, now, &actions_);
    Settle();
  }
  // Ends all copies that were asked for, and those that this brings about.
  void EndCopies() {
    while (!device_copies.empty()) {
      for (const DeviceCopy& copy : std::exchange(device_copies, {})) EndCopy(copy);
    }
  }

  // ---- events ----

  PeerId ServerPeer(uint32_t server) const { return PeerId(100 + server + 1000 * lives_[server]); }
  void Up(uint32_t server) { Give({.kind = TransportEventKind::kPeerUp, .peer = ServerPeer(server)}); }
  void Down(uint32_t server, absl::Status why = absl::UnavailableError("connection reset")) {
    const PeerId peer = ServerPeer(server);
    ++lives_[server];
    Give({.kind = TransportEventKind::kPeerDown, .peer = peer, .status = std::move(why)});
  }
  void GiveNote(uint32_t server, const Note& note) {
    Give({.kind = TransportEventKind::kNote, .peer = ServerPeer(server), .bytes = note.view()});
  }
  static FrameHeader Header(FrameType type, uint32_t rank = 0, uint64_t group = 1, uint64_t epoch = 3) {
    FrameHeader header;
    header.type = type;
    header.group = GroupId(group);
    header.epoch = Epoch(epoch);
    header.rank = Rank(rank);
    return header;
  }
  void Welcome(uint32_t server, uint32_t credit, uint32_t rank = 0, uint64_t group = 1, uint64_t epoch = 3) {
    GiveNote(server, MakeWelcome(Header(FrameType::kWelcome, rank, group, epoch), {Incarnation(50 + server), credit}));
  }
  // Opens a group of rank 0 with every server up and welcoming.
  void OpenAll(uint32_t size, uint32_t servers, uint32_t credit, uint16_t handle = 0, uint64_t id = 1) {
    Open(Info(0, size, servers, id), handle);
    for (uint32_t k = 0; k < servers; ++k) {
      if (connected_.at(k)) continue;
      connected_[k] = true;
      Up(k);
    }
    for (uint32_t k = 0; k < servers; ++k) Welcome(k, credit, 0, id);
    ASSERT_EQ(opened.size(), 1u);
    ASSERT_TRUE(opened[0].status.ok()) << opened[0].status;
    Clear();
  }
  void Sent(const WorkerSendAction& send, absl::Status status = absl::OkStatus()) {
    Give({.kind = TransportEventKind::kSent, .token = send.token, .status = std::move(status)});
  }
  // The server's answer to a push: the result, offered.
  OfferId OfferResult(const WorkerSendAction& send, uint32_t size, uint64_t commit_watermark = 0) {
    FrameHeader header = *DecodeHeader(send.header);
    header.type = FrameType::kResult;
    header.commit_watermark = OpNumber(commit_watermark);
    header.landed_watermark = OpNumber(0);
    header.contributors = size;
    return Offer(send.peer, header, send.bytes);
  }
  OfferId Offer(PeerId peer, const FrameHeader& header, uint64_t payload_bytes) {
    const OfferId offer(next_offer_++);
    const FrameHeaderBytes bytes = EncodeHeader(header);
    Give({.kind = TransportEventKind::kOffered,
          .peer = peer,
          .offer = offer,
          .payload_bytes = payload_bytes,
          .bytes = bytes});
    return offer;
  }
  void Land(const WorkerAcceptAction& accept, absl::Status status = absl::OkStatus()) {
    Give({.kind = TransportEventKind::kLanded, .token = accept.token, .status = std::move(status)});
  }
  // Everything pushed is answered, in the order pushed, and whatever that lets go out as well.
  void AnswerAll(uint32_t size) {
    EndCopies();
    while (!sends.empty()) {
      for (const WorkerSendAction& send : std::exchange(sends, {})) {
        Sent(send);
        OfferResult(send, size);
      }
      for (const WorkerAcceptAction& accept : std::exchange(accepts, {})) Land(accept);
      EndCopies();
    }
  }
  void TickAt(uint64_t monotonic_ns) {
    now.monotonic_ns = monotonic_ns;
    Settle();
  }

  void Give(const TransportEvent& event) {
    machine_.OnEvent(event, now, &actions_);
    Settle();
  }
  // What happened on the node.
  template <typename LocalEvent>
  void GiveLocal(const LocalEvent& event) {
    machine_.OnEvent(event, now, &actions_);
    Settle();
  }

  // Lets that much time pass, with the machine run when it wants to be.
  void Pass(uint64_t ns) {
    const uint64_t end_ns = now.monotonic_ns + ns;
    while (machine_.NextDeadlineNs() <= end_ns) TickAt(std::max(machine_.NextDeadlineNs(), now.monotonic_ns));
    TickAt(end_ns);
  }

  // ---- what came out ----

  void Clear() {
    connects.clear();
    notes.clear();
    sends.clear();
    accepts.clear();
    encodes.clear();
    decodes.clear();
    device_copies.clear();
    copies_over.clear();
    declines.clear();
    closes.clear();
    local_opens.clear();
    local_starts.clear();
    published.clear();
    local_fails.clear();
    local_closes.clear();
    opened.clear();
    done.clear();
    closed.clear();
    troubles.clear();
    waits.clear();
    shutdowns = 0;
  }
  std::vector<SentNote> NotesOf(FrameType type) const {
    std::vector<SentNote> found;
    std::copy_if(notes.begin(), notes.end(), std::back_inserter(found),
                 [type](const SentNote& note) { return note.header.type == type; });
    return found;
  }
  static FrameHeader HeaderOf(const WorkerSendAction& send) { return *DecodeHeader(send.header); }
  const std::byte* memory(uint64_t ticket) const { return memory_.data() + (ticket % 16) * (64 << 10); }
  WorkerMachine& machine() { return machine_; }

  Now now{.monotonic_ns = kNsPerS};
  uint64_t last_accept_token = 0;
  bool accepts_at_once = false;  // the transport's answer for every offer
  // Servers in it can't even be tried: Connect fails at once.
  std::vector<uint32_t> unconnectable;
  std::vector<uint32_t> connects;
  std::vector<SentNote> notes;
  std::vector<WorkerSendAction> sends;
  std::vector<WorkerAcceptAction> accepts;
  std::vector<WorkerEncodeAction> encodes;
  std::vector<WorkerDecodeAction> decodes;
  std::vector<DeviceCopy> device_copies;
  std::vector<uint64_t> copies_over;  // tickets
  int device_abandons = 0;
  std::vector<OfferId> declines;
  std::vector<PeerId> closes;
  std::vector<LocalRank> missing;  // the node's answer whenever it is asked
  std::vector<LocalGroup> local_opens;
  std::vector<LocalOp> local_starts;
  std::vector<Published> published;
  std::vector<LocalFailAction> local_fails;
  std::vector<GroupHandle> local_closes;
  std::vector<GroupOpened> opened;
  std::vector<OpDone> done;
  std::vector<GroupBroken> broken;
  std::vector<GroupClosed> closed;
  std::vector<LinkFacts> measured;
  std::vector<ServerTrouble> troubles;
  std::vector<std::string> failures_told;  // why this rank gave its groups up
  bool lacks_memory_told = false;          // with the newest of them
  bool others_go_on_told = false;          // likewise
  std::vector<std::string> waits;
  int shutdowns = 0;

 private:
  // What a loop does after events.
  void Settle() {
    machine_.Tick(now, &actions_);
    while (!actions_.empty()) {
      for (const WorkerAction& action : std::exchange(actions_, {})) {
        Sort(action);
        SortLocal(action);
        SortOutcome(action);
      }
    }
  }
  void Sort(const WorkerAction& action) {
    if (const auto* connect = std::get_if<WorkerConnectAction>(&action)) {
      connects.push_back(connect->connection);
      const bool fails = std::count(unconnectable.begin(), unconnectable.end(), connect->connection) > 0;
      machine_.OnEvent(
          ConnectStarted{.connection = connect->connection,
                         .peer = fails ? absl::StatusOr<PeerId>(absl::InvalidArgumentError("not an address"))
                                       : absl::StatusOr<PeerId>(ServerPeer(connect->connection))},
          now, &actions_);
    }
    if (const auto* note = std::get_if<WorkerSendNoteAction>(&action)) {
      const std::span<const std::byte> body = note->note.view().subspan(kFrameHeaderBytes);
      notes.push_back({note->peer, *DecodeHeader(note->note.view()), {body.begin(), body.end()}});
    }
    if (const auto* send = std::get_if<WorkerSendAction>(&action)) sends.push_back(*send);
    if (const auto* encode = std::get_if<WorkerEncodeAction>(&action)) encodes.push_back(*encode);
    if (const auto* decode = std::get_if<WorkerDecodeAction>(&action)) decodes.push_back(*decode);
    if (const auto* accept = std::get_if<WorkerAcceptAction>(&action)) {
      machine_.OnEvent(AcceptStarted{.token = accept->token, .at_once = accepts_at_once}, now, &actions_);
      accepts.push_back(*accept);
      last_accept_token = accept->token;
    }
    if (const auto* copy = std::get_if<DeviceCopyAction>(&action)) device_copies.push_back(copy->copy);
    if (const auto* over = std::get_if<DeviceCopiesOverAction>(&action)) copies_over.push_back(over->ticket);
    if (std::holds_alternative<DeviceAbandonAction>(action)) ++device_abandons;
    if (const auto* decline = std::get_if<WorkerDeclineAction>(&action)) declines.push_back(decline->offer);
    if (const auto* close = std::get_if<WorkerClosePeerAction>(&action)) closes.push_back(close->peer);
  }
  void SortLocal(const WorkerAction& action) {
    if (const auto* open = std::get_if<LocalOpenAction>(&action)) local_opens.push_back(open->group);
    if (const auto* start = std::get_if<LocalStartAction>(&action)) local_starts.push_back(start->op);
    if (const auto* publish = std::get_if<LocalPublishAction>(&action)) {
      published.push_back({publish->elements, decodes.size(), publish->contributors});
    }
    if (const auto* fail = std::get_if<LocalFailAction>(&action)) local_fails.push_back(*fail);
    if (const auto* close = std::get_if<LocalCloseAction>(&action)) local_closes.push_back(close->group);
    if (const auto* question = std::get_if<LocalMissingAction>(&action)) {
      machine_.OnEvent(LocalRanksMissing{question->group, missing}, now, &actions_);
    }
  }
  void SortOutcome(const WorkerAction& outcome) {
    if (const auto* group = std::get_if<GroupOpened>(&outcome)) opened.push_back(*group);
    if (const auto* op = std::get_if<OpDone>(&outcome)) done.push_back(*op);
    if (const auto* group = std::get_if<GroupBroken>(&outcome)) broken.push_back(*group);
    if (const auto* group = std::get_if<GroupClosed>(&outcome)) closed.push_back(*group);
    if (const auto* link = std::get_if<LinkMeasured>(&outcome)) measured.push_back(link->link);
    if (const auto* trouble = std::get_if<ServerTrouble>(&outcome)) troubles.push_back(*trouble);
    if (const auto* failure = std::get_if<GroupFailure>(&outcome)) {
      failures_told.push_back(failure->reason);
      lacks_memory_told = failure->lacks_memory;
      others_go_on_told = failure->others_go_on;
    }
    if (const auto* wait = std::get_if<WaitReported>(&outcome)) waits.push_back(wait->line);
    if (std::holds_alternative<ShutdownDone>(outcome)) ++shutdowns;
  }

  WorkerMachine machine_;
  std::vector<std::byte> memory_;
  WorkerActions actions_;
  std::map<uint16_t, std::shared_ptr<const GroupInfo>> infos_;  // by handle
  std::vector<uint64_t> lives_ = std::vector<uint64_t>(8, 0);
  std::vector<bool> connected_ = std::vector<bool>(8, false);
  uint64_t next_offer_ = 1;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_UNIT_WORKER_MACHINE_WORKER_DRIVER_H_
