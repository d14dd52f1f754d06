// An EtcdStore over a real etcd, with a way to it on which transactions get lost, and what lies there.
#ifndef SHOAL_TESTS_UNIT_SCHEDULER_STORE_ETCD_STORE_HARNESS_H_
#define SHOAL_TESTS_UNIT_SCHEDULER_STORE_ETCD_STORE_HARNESS_H_

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "scheduler/store/etcd_store.h"
#include "tests/conformance/store/etcd_process.h"
#include "tests/conformance/store/random_bytes.h"
#include "tests/unit/scheduler/store/lossy_etcd.h"

namespace shoal::scheduler {

inline constexpr uint64_t kTimeoutMs = 5000;
inline constexpr char kLeaderKey[] = "/test/leader";
inline constexpr char kStateKey[] = "/test/state";
inline constexpr char kPiecesKey[] = "/test/state/";

inline std::string Changed(std::string state, size_t at) {
  state[at] = static_cast<char>(state[at] ^ 1);
  return state;
}

inline std::string HexDigest(const std::string& bytes) { return absl::BytesToHexString(Sha256Of(bytes)); }

class EtcdStoreTest : public ::testing::Test {
 protected:
  using Fate = LossyEtcd::Fate;

  EtcdStoreTest()
      : folder_(MakeFolder()),
        etcd_(folder_),
        way_(etcd_.address()),
        direct_(TargetAt(etcd_.address())),
        client_(TargetAt(way_.address())) {}
  ~EtcdStoreTest() override {
    way_.SetJudge(nullptr);
    std::filesystem::remove_all(folder_);
  }

  static std::string MakeFolder() {
    std::string pattern = ::testing::TempDir() + "/shoal-etcd-store-XXXXXX";
    return mkdtemp(pattern.data());
  }
  static EtcdTarget TargetAt(const std::string& address) { return *ParseEtcdTarget("etcd://" + address + "/test"); }

  etcdserverpb::TxnResponse Do(const etcdserverpb::TxnRequest& request) {
    const absl::StatusOr<etcdserverpb::TxnResponse> response = direct_.Transact(request, kTimeoutMs);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : etcdserverpb::TxnResponse();
  }
  int64_t Put(const std::string& key, const std::string& value) {
    etcdserverpb::TxnRequest request;
    etcdserverpb::PutRequest* put = request.add_success()->mutable_request_put();
    put->set_key(key);
    put->set_value(value);
    return Do(request).header().revision();
  }
  void Delete(const std::string& key) {
    etcdserverpb::TxnRequest request;
    request.add_success()->mutable_request_delete_range()->set_key(key);
    Do(request);
  }
  int64_t BeginTerm() {
    Delete(kLeaderKey);
    return Put(kLeaderKey, "a scheduler");
  }

  // The scheduler that leads from now on.
  std::unique_ptr<EtcdStore> OpenInNewTerm() { return std::make_unique<EtcdStore>(&client_, kLeaderKey, BeginTerm()); }
  static absl::Status Save(EtcdStore* store, const std::string& state) {
    store->StartSave(1, state);
    for (;;) {
      if (const std::optional<Store::Saved> saved = store->PollSaved()) return saved->status;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // The state key and the pieces as they lie in etcd.
  std::vector<etcdserverpb::KeyValue> Kept() {
    etcdserverpb::RangeRequest request;
    request.set_key(kStateKey);
    request.set_range_end("/test/state0");
    const absl::StatusOr<etcdserverpb::RangeResponse> response = direct_.Read(request, kTimeoutMs);
    EXPECT_TRUE(response.ok()) << response.status();
    if (!response.ok()) return {};
    return {response->kvs().begin(), response->kvs().end()};
  }
  std::vector<etcdserverpb::KeyValue> KeptPieces() {
    std::vector<etcdserverpb::KeyValue> pieces = Kept();
    if (!pieces.empty()) pieces.erase(pieces.begin());
    return pieces;
  }
  std::string GenerationKey() {
    const std::vector<etcdserverpb::KeyValue> kept = Kept();
    if (kept.empty()) return "";
    return std::vector<std::string>(absl::StrSplit(kept[0].value(), ' '))[0];
  }
  int64_t Revision() {
    etcdserverpb::RangeRequest anything;
    anything.set_key(kStateKey);
    return direct_.Read(anything, kTimeoutMs)->header().revision();
  }
  size_t BytesWrittenSince(int64_t revision) {
    size_t bytes = 0;
    for (const etcdserverpb::KeyValue& each : Kept()) {
      if (each.mod_revision() > revision) bytes += each.key().size() + each.value().size();
    }
    return bytes;
  }

  // As the next scheduler finds it.
  void ExpectFound(const std::string& state, const std::string& when) {
    const absl::StatusOr<std::optional<std::string>> loaded = EtcdStore(&direct_, kLeaderKey, 0).Load();
    ASSERT_TRUE(loaded.ok()) << when << ": " << loaded.status();
    ASSERT_TRUE(loaded->has_value()) << when;
    EXPECT_TRUE(**loaded == state) << when << ": found " << (*loaded)->size() << " bytes, not the " << state.size();
  }
  void ExpectNothingUnneeded(const std::string& state, const std::string& when) {
    const std::string generation_key = GenerationKey();
    std::string found;
    for (const etcdserverpb::KeyValue& piece : KeptPieces()) {
      EXPECT_TRUE(absl::StartsWith(piece.key(), generation_key)) << when << ": " << piece.key() << " is not needed";
      found += piece.value();
    }
    EXPECT_TRUE(found == state) << when << ": " << found.size() << " bytes, not the " << state.size();
  }

  // As the builds did that wrote all of the state with each save.
  void WriteAsBefore(int64_t term, uint64_t generation, const std::string& state) {
    constexpr size_t kPieceBytes = 512 << 10;
    const std::string pieces_key = absl::StrFormat("%s%020d-%020d/", kPiecesKey, term, generation);
    size_t begin = 0;
    int number = 0;
    const auto key = [&] { return absl::StrFormat("%s%06d", pieces_key, number); };
    for (; state.size() - begin > kPieceBytes; begin += kPieceBytes, ++number) {
      Put(key(), state.substr(begin, kPieceBytes));
    }
    etcdserverpb::TxnRequest last;
    for (const auto& [name, value] : {std::pair(key(), state.substr(begin)),
                                      std::pair(std::string(kStateKey), pieces_key + " " + HexDigest(state))}) {
      etcdserverpb::PutRequest* put = last.add_success()->mutable_request_put();
      put->set_key(name);
      put->set_value(value);
    }
    etcdserverpb::DeleteRangeRequest* older = last.add_success()->mutable_request_delete_range();
    older->set_key(kPiecesKey);
    older->set_range_end(pieces_key);
    Do(last);
  }
  void ExpectFoundAsBefore(const std::string& state, const std::string& when) {
    etcdserverpb::RangeRequest read_key;
    read_key.set_key(kStateKey);
    const absl::StatusOr<etcdserverpb::RangeResponse> key = direct_.Read(read_key, kTimeoutMs);
    ASSERT_TRUE(key.ok() && key->kvs_size() == 1) << when;
    const std::vector<std::string> parts = absl::StrSplit(key->kvs(0).value(), ' ');
    ASSERT_EQ(parts.size(), 2u) << when;
    etcdserverpb::RangeRequest read_pieces;
    read_pieces.set_key(parts[0]);
    std::string end = parts[0];
    ++end.back();
    read_pieces.set_range_end(end);
    read_pieces.set_revision(key->header().revision());
    const absl::StatusOr<etcdserverpb::RangeResponse> pieces = direct_.Read(read_pieces, kTimeoutMs);
    ASSERT_TRUE(pieces.ok()) << when;
    std::string found;
    for (const etcdserverpb::KeyValue& piece : pieces->kvs()) found += piece.value();
    EXPECT_EQ(parts[1], HexDigest(found)) << when;
    EXPECT_TRUE(found == state) << when << ": found " << found.size() << " bytes, not the " << state.size();
  }

  // Of those from now on the one that has this number, from 0, has that fate; `meanwhile` comes before each.
  void LetOneOfTheNext(int number, Fate fate, const std::function<void(int)>& meanwhile = nullptr) {
    way_.SetJudge([=, count = std::make_shared<int>(0)](const etcdserverpb::TxnRequest&) {
      const int this_one = (*count)++;
      if (meanwhile) meanwhile(this_one);
      return this_one == number ? fate : Fate::kIsDone;
    });
  }

  std::string folder_;
  EtcdProcess etcd_;
  LossyEtcd way_;
  EtcdClient direct_;
  EtcdClient client_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_UNIT_SCHEDULER_STORE_ETCD_STORE_HARNESS_H_
