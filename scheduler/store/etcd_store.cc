#include "scheduler/store/etcd_store.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace shoal::scheduler {
namespace {

constexpr uint64_t kTimeoutMs = 5000;
constexpr uint64_t kCompactTimeoutMs = 1000;
constexpr int kMostReads = 8;

std::string Digest(const std::string& state) { return absl::BytesToHexString(Sha256Of(state)); }

// Numbers of equal length, so that keys are in the order of generations.
std::string GenerationKey(const std::string& state_key, int64_t term, uint64_t generation) {
  return absl::StrFormat("%s/%020d-%020d/", state_key, term, generation);
}

std::string PieceKey(const std::string& generation_key, uint64_t number) {
  return absl::StrFormat("%s%016x", generation_key, number);
}

// The first key after all that begin with `prefix`, which ends with '/'.
std::string EndOf(std::string prefix) {
  ++prefix.back();
  return prefix;
}

void AddPut(const std::string& key, const std::string& value, etcdserverpb::TxnRequest* request) {
  etcdserverpb::PutRequest* const put = request->add_success()->mutable_request_put();
  put->set_key(key);
  put->set_value(value);
}

void AddPut(const std::string& generation_key, const PiecePlan::Put& piece, etcdserverpb::TxnRequest* request) {
  AddPut(PieceKey(generation_key, piece.number), std::string(piece.bytes), request);
}

// What the operation `index` of a transaction, a range, has read. Nothing if that is not in the answer.
const etcdserverpb::RangeResponse& RangeOf(const etcdserverpb::TxnResponse& response, int index) {
  if (index >= response.responses_size()) return etcdserverpb::RangeResponse::default_instance();
  return response.responses(index).response_range();
}

}  // namespace

EtcdStore::EtcdStore(EtcdClient* client, const std::string& leader_key, int64_t term)
    : client_(client),
      leader_key_(leader_key),
      term_(term),
      state_key_(client->target().prefix + "state"),
      compact_to_(term),
      thread_([this](const std::string& state) { return Write(state); }) {}

absl::StatusOr<std::optional<std::string>> EtcdStore::Load() {
  for (int read = 0; read < kMostReads; ++read) {
    absl::StatusOr<std::optional<std::string>> state = ReadOnce();
    if (!absl::IsOutOfRange(state.status())) return state;
  }
  return absl::UnavailableError(absl::StrCat("the state under ", state_key_, " (", Describe(),
                                             ") was replaced, and the former one compacted away, each of ", kMostReads,
                                             " times that it was read"));
}

absl::StatusOr<std::optional<std::string>> EtcdStore::ReadOnce() {
  etcdserverpb::RangeRequest read_key;
  read_key.set_key(state_key_);
  const absl::StatusOr<etcdserverpb::RangeResponse> key = client_->Read(read_key, kTimeoutMs);
  if (!key.ok()) return key.status();
  if (key->kvs_size() == 0) return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(key->kvs(0).value(), ' ');
  const absl::Status damaged = absl::DataLossError(absl::StrCat(
      "the state under ", state_key_, " (", Describe(),
      ") is damaged or was not written by this version of shoal-scheduler; restore a copy, or give another prefix to "
      "start a new cluster"));
  if (parts.size() != 2 || parts[0].empty()) return damaged;
  etcdserverpb::RangeRequest read_pieces;
  read_pieces.set_key(parts[0]);
  read_pieces.set_range_end(EndOf(parts[0]));
  read_pieces.set_revision(key->header().revision());  // a save meanwhile removes them
  const absl::StatusOr<etcdserverpb::RangeResponse> pieces = client_->Read(read_pieces, kTimeoutMs);
  if (!pieces.ok()) return pieces.status();
  std::string state;
  for (const etcdserverpb::KeyValue& piece : pieces->kvs()) state += piece.value();
  if (Digest(state) != parts[1]) return damaged;
  return state;
}

absl::StatusOr<int64_t> EtcdStore::ReadMovedAt() {
  etcdserverpb::RangeRequest request;
  request.set_key(state_key_);
  const absl::StatusOr<etcdserverpb::RangeResponse> response = client_->Read(request, kTimeoutMs);
  if (!response.ok()) return response.status();
  return response->kvs_size() == 0 ? 0 : response->kvs(0).mod_revision();
}

absl::StatusOr<int64_t> EtcdStore::Send(etcdserverpb::TxnRequest request, int64_t moved_at,
                                        const std::string& becomes) {
  etcdserverpb::Compare* const ours = request.add_compare();
  ours->set_target(etcdserverpb::Compare::CREATE);
  ours->set_key(leader_key_);
  ours->set_create_revision(term_);
  etcdserverpb::Compare* const unmoved = request.add_compare();
  unmoved->set_target(etcdserverpb::Compare::MOD);
  unmoved->set_key(state_key_);
  unmoved->set_mod_revision(moved_at);
  request.add_failure()->mutable_request_range()->set_key(leader_key_);
  request.add_failure()->mutable_request_range()->set_key(state_key_);
  bytes_since_compaction_ += request.ByteSizeLong();
  const absl::StatusOr<etcdserverpb::TxnResponse> response = client_->Transact(request, kTimeoutMs);
  if (!response.ok()) return response.status();
  if (response->succeeded()) return response->header().revision();
  const etcdserverpb::RangeResponse& leader = RangeOf(*response, 0);
  if (leader.kvs_size() == 0 || leader.kvs(0).create_revision() != term_) {
    term_is_over_.store(true, std::memory_order_release);
    return absl::FailedPreconditionError(absl::StrCat("term ", term_, " has ended: another scheduler leads"));
  }
  // Where the client repeated it because the answer was lost, it finds its own work done. Though equal states have
  // equal values, it is that of this save: in a term there is one writer, and what an earlier save of it has sent in
  // this generation does nothing since `moved_at`.
  const etcdserverpb::RangeResponse& state = RangeOf(*response, 1);
  if (state.kvs_size() == 1 && state.kvs(0).value() == becomes) return state.kvs(0).mod_revision();
  return absl::AbortedError(absl::StrCat(
      "the state under ", state_key_, " (", Describe(),
      ") was changed meanwhile, as by an earlier save that had been given up; the next save writes all of it anew"));
}

absl::StatusOr<EtcdStore::Kept> EtcdStore::WriteChange(Kept kept, PiecePlan plan, const std::string& digest) {
  etcdserverpb::TxnRequest request;
  for (const PiecePlan::Put& piece : plan.puts) AddPut(kept.generation_key, piece, &request);
  for (const uint64_t number : plan.removed) {
    request.add_success()->mutable_request_delete_range()->set_key(PieceKey(kept.generation_key, number));
  }
  const std::string becomes = absl::StrCat(kept.generation_key, " ", digest);
  AddPut(state_key_, becomes, &request);
  const absl::StatusOr<int64_t> moved_at = Send(std::move(request), kept.moved_at, becomes);
  if (!moved_at.ok()) return moved_at.status();
  kept.moved_at = *moved_at;
  kept.pieces = std::move(plan.kept);
  return kept;
}

absl::StatusOr<EtcdStore::Kept> EtcdStore::WriteAnew(int64_t moved_at, PiecePlan plan, const std::string& digest) {
  // The last transaction also moves the key and removes what is older.
  constexpr size_t kMostPuts = kMostOperations - 2;
  const std::string generation_key = GenerationKey(state_key_, term_, ++generation_);
  const std::string becomes = absl::StrCat(generation_key, " ", digest);
  etcdserverpb::TxnRequest request;
  size_t put_bytes = 0;
  for (const PiecePlan::Put& piece : plan.puts) {
    if (static_cast<size_t>(request.success_size()) == kMostPuts || put_bytes + piece.bytes.size() > kMostPutBytes) {
      const absl::StatusOr<int64_t> done = Send(std::exchange(request, {}), moved_at, becomes);
      if (!done.ok()) return done.status();
      put_bytes = 0;
    }
    AddPut(generation_key, piece, &request);
    put_bytes += piece.bytes.size();
  }
  AddPut(state_key_, becomes, &request);
  etcdserverpb::DeleteRangeRequest* const older = request.add_success()->mutable_request_delete_range();
  older->set_key(state_key_ + "/");
  older->set_range_end(generation_key);
  const absl::StatusOr<int64_t> saved_at = Send(std::move(request), moved_at, becomes);
  if (!saved_at.ok()) return saved_at.status();
  return Kept{.moved_at = *saved_at, .generation_key = generation_key, .pieces = std::move(plan.kept)};
}

absl::StatusOr<EtcdStore::Kept> EtcdStore::WriteNext(std::optional<Kept> kept, const std::string& state) {
  const std::vector<StatePiece> pieces = CutState(state);
  const std::string digest = Digest(state);
  if (!kept.has_value()) {
    const absl::StatusOr<int64_t> moved_at = ReadMovedAt();
    if (!moved_at.ok()) return moved_at.status();
    return WriteAnew(*moved_at, PlanAnew(pieces), digest);
  }
  std::optional<PiecePlan> change = PlanChange(kept->pieces, pieces);
  if (!change.has_value()) return WriteAnew(kept->moved_at, PlanAnew(pieces), digest);
  return WriteChange(*std::move(kept), *std::move(change), digest);
}

absl::Status EtcdStore::Write(const std::string& state) {
  // What lies there is unknown from here on, unless all goes well.
  absl::StatusOr<Kept> saved = WriteNext(std::exchange(kept_, std::nullopt), state);
  if (!saved.ok()) return saved.status();
  kept_ = *std::move(saved);
  ++saves_since_compaction_;
  CompactIfDue(kept_->moved_at);
  return absl::OkStatus();
}

void EtcdStore::CompactIfDue(int64_t revision) {
  if (bytes_since_compaction_ < kCompactAfterBytes && saves_since_compaction_ < kCompactAfterSaves) return;
  bytes_since_compaction_ = 0;
  saves_since_compaction_ = 0;
  // The state is saved whatever becomes of this; the next time makes good what did not succeed.
  client_->Compact(std::exchange(compact_to_, revision), kCompactTimeoutMs).IgnoreError();
}

}  // namespace shoal::scheduler
