#include "scheduler/store/etcd_store.h"

#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace shoal::scheduler {
namespace {

constexpr uint64_t kTimeoutMs = 5000;
constexpr uint64_t kCompactTimeoutMs = 1000;
constexpr int kMostReads = 8;
constexpr size_t kPieceBytes = 512 << 10;  // etcd takes 1.5 MiB in one request

std::string Digest(const std::string& state) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(state.data()), state.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return absl::BytesToHexString(digest);
}

// Numbers of equal length, so that keys are in the order of generations.
std::string GenerationKey(const std::string& state_key, int64_t term, uint64_t generation) {
  return absl::StrFormat("%s/%020d-%020d/", state_key, term, generation);
}

// The first key after all that begin with `prefix`, which ends with '/'.
std::string EndOf(std::string prefix) {
  ++prefix.back();
  return prefix;
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

etcdserverpb::TxnRequest EtcdStore::PutPiece(const std::string& key, const std::string& piece) const {
  etcdserverpb::TxnRequest request;
  etcdserverpb::Compare* ours = request.add_compare();
  ours->set_target(etcdserverpb::Compare::CREATE);
  ours->set_key(leader_key_);
  ours->set_create_revision(term_);
  etcdserverpb::PutRequest* put = request.add_success()->mutable_request_put();
  put->set_key(key);
  put->set_value(piece);
  return request;
}

absl::Status EtcdStore::WritePiece(const etcdserverpb::TxnRequest& request, int64_t* revision) {
  const absl::StatusOr<etcdserverpb::TxnResponse> response = client_->Transact(request, kTimeoutMs);
  if (!response.ok()) return response.status();
  *revision = response->header().revision();
  if (response->succeeded()) return absl::OkStatus();
  term_is_over_.store(true, std::memory_order_release);
  return absl::FailedPreconditionError(absl::StrCat("term ", term_, " has ended: another scheduler leads"));
}

absl::Status EtcdStore::Write(const std::string& state) {
  const std::string pieces_key = GenerationKey(state_key_, term_, ++generation_);
  size_t begin = 0;
  int64_t revision = 0;
  int number = 0;
  const auto key = [&] { return absl::StrFormat("%s%06d", pieces_key, number); };
  for (; state.size() - begin > kPieceBytes; begin += kPieceBytes, ++number) {
    absl::Status status = WritePiece(PutPiece(key(), state.substr(begin, kPieceBytes)), &revision);
    if (!status.ok()) return status;
  }
  etcdserverpb::TxnRequest last = PutPiece(key(), state.substr(begin));
  etcdserverpb::PutRequest* name = last.add_success()->mutable_request_put();
  name->set_key(state_key_);
  name->set_value(absl::StrCat(pieces_key, " ", Digest(state)));
  etcdserverpb::DeleteRangeRequest* older = last.add_success()->mutable_request_delete_range();
  older->set_key(state_key_ + "/");
  older->set_range_end(pieces_key);
  if (absl::Status status = WritePiece(last, &revision); !status.ok()) return status;
  bytes_since_compaction_ += state.size();
  ++saves_since_compaction_;
  CompactIfDue(revision);
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
