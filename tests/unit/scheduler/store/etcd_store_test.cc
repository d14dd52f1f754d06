// What a save writes into a real etcd and what it leaves there, and that builds before the pieces were cut by content
// can read it. What becomes of it when transactions are lost is in etcd_store_losses_test.cc, what every store does in
// tests/conformance/store.
#include "scheduler/store/etcd_store.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/store/content_pieces.h"
#include "tests/unit/scheduler/store/etcd_store_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Ne;
using ::testing::SizeIs;

// ---- what is written, and what stays ----

TEST_F(EtcdStoreTest, ASmallChangeOfALargeStateIsOneTransactionWithoutTheRest) {
  constexpr size_t kStateBytes = 1 << 20;
  constexpr size_t kMostBytes = 100'000;
  constexpr size_t kMeanBytes = 24'000;
  const auto store = OpenInNewTerm();
  const std::string state = RandomBytes(kStateBytes, 1);
  ASSERT_TRUE(Save(store.get(), state).ok());
  const std::string generation_key = GenerationKey();
  size_t sent_bytes = 0;
  int saves = 0;
  for (const size_t at : {size_t{0}, kStateBytes / 5, kStateBytes / 2, kStateBytes - 1}) {
    const std::string less = state.substr(0, at) + state.substr(at + 1);
    const std::string more = state.substr(0, at) + RandomBytes(500, at) + state.substr(at);
    for (const std::string& after : {Changed(state, at), less, more, state}) {
      std::vector<size_t> sizes;
      way_.SetJudge([&sizes](const etcdserverpb::TxnRequest& request) {
        sizes.push_back(request.ByteSizeLong());
        return Fate::kIsDone;
      });
      ASSERT_TRUE(Save(store.get(), after).ok());
      way_.SetJudge(nullptr);
      ASSERT_THAT(sizes, SizeIs(1)) << "at " << at;
      EXPECT_LT(sizes[0], kMostBytes) << "at " << at;
      sent_bytes += sizes[0];
      ++saves;
      EXPECT_EQ(GenerationKey(), generation_key);
      ExpectFound(after, absl::StrCat("at ", at));
      ExpectNothingUnneeded(after, absl::StrCat("at ", at));
    }
  }
  EXPECT_LT(sent_bytes / saves, kMeanBytes);
}

TEST_F(EtcdStoreTest, ASaveOfTheSameStateWritesItsNameAlone) {
  const auto store = OpenInNewTerm();
  const std::string state = RandomBytes(100'000, 1);
  ASSERT_TRUE(Save(store.get(), state).ok());
  const std::string name = Kept()[0].value();
  const int64_t revision = Revision();
  ASSERT_TRUE(Save(store.get(), state).ok());
  EXPECT_EQ(Revision(), revision + 1) << "or the end of its term might not be seen";
  EXPECT_EQ(BytesWrittenSince(revision), sizeof(kStateKey) - 1 + name.size());
  ExpectFound(state, "saved twice");
}

TEST_F(EtcdStoreTest, LargeStatesAndThoseAfterThemAreSaved) {
  constexpr size_t kLargeBytes = 20 << 20;
  const auto store = OpenInNewTerm();
  std::string runs;
  for (char byte = 'a'; byte <= 'z'; ++byte) runs += std::string(kMostPieceBytes, byte);
  const std::string large = RandomBytes(kLargeBytes, 1);
  for (const std::string& state : {large, Changed(large, kLargeBytes / 2), runs, RandomBytes(1'000'000, 2),
                                   std::string("short"), std::string(kLargeBytes, 'x'), std::string()}) {
    const absl::Status status = Save(store.get(), state);
    ASSERT_TRUE(status.ok()) << state.size() << " bytes: " << status;
    ExpectFound(state, absl::StrCat(state.size(), " bytes"));
    ExpectNothingUnneeded(state, absl::StrCat(state.size(), " bytes"));
  }
  EXPECT_THAT(KeptPieces(), IsEmpty());
}

// What lies there may be damaged, or be left over from a save that never ended.
TEST_F(EtcdStoreTest, TheFirstSaveOfATermWritesAllPiecesAndRemovesWhatWasThere) {
  const std::string state = RandomBytes(300'000, 1);
  ASSERT_TRUE(Save(OpenInNewTerm().get(), state).ok());
  Put(absl::StrCat(kPiecesKey, "00000000000000000001-00000000000000000001/000000"), "left over");
  Put(absl::StrCat(GenerationKey(), "ff"), "left over");
  Put(KeptPieces()[0].key(), "not what was put there");
  const auto store = OpenInNewTerm();
  const int64_t revision = Revision();
  ASSERT_TRUE(Save(store.get(), state).ok());
  ExpectFound(state, "in a new term");
  ExpectNothingUnneeded(state, "in a new term");
  for (const etcdserverpb::KeyValue& each : Kept()) EXPECT_GT(each.mod_revision(), revision) << each.key();
}

TEST_F(EtcdStoreTest, WhatIsTooMuchForOneTransactionIsANewGeneration) {
  const auto store = OpenInNewTerm();
  ASSERT_TRUE(Save(store.get(), RandomBytes(600'000, 1)).ok());
  const std::string former = GenerationKey();
  const std::string latter = RandomBytes(600'000, 2);
  ASSERT_TRUE(Save(store.get(), latter).ok());
  EXPECT_THAT(GenerationKey(), Ne(former));
  ExpectFound(latter, "a new generation");
  ExpectNothingUnneeded(latter, "a new generation");
}

TEST_F(EtcdStoreTest, WhoReadsWhileAnotherSavesAgainAndAgainFindsOneWholeState) {
  constexpr int kStates = 40;
  constexpr int kReads = 100;
  std::vector<std::string> states = {RandomBytes(300'000, 1)};
  for (int i = 1; i < kStates; ++i) {
    const size_t at = states.back().size() / kStates * i;
    states.push_back(states.back().substr(0, at) + RandomBytes(i * 100, i) + states.back().substr(at + 1));
  }
  const auto store = OpenInNewTerm();
  ASSERT_TRUE(Save(store.get(), states[0]).ok());
  std::atomic<bool> ends = false;
  int failed = 0;
  std::thread saver([&] {
    for (size_t save = 0; !ends.load(); ++save) failed += Save(store.get(), states[save % kStates]).ok() ? 0 : 1;
  });
  for (int read = 0; read < kReads; ++read) {
    const absl::StatusOr<std::optional<std::string>> loaded = EtcdStore(&direct_, kLeaderKey, 0).Load();
    const bool is_whole =
        loaded.ok() && loaded->has_value() && std::find(states.begin(), states.end(), **loaded) != states.end();
    EXPECT_TRUE(is_whole) << loaded.status();
    if (!is_whole) break;
  }
  ends.store(true);
  saver.join();
  EXPECT_EQ(failed, 0);
}

// ---- the bytes in etcd ----

TEST_F(EtcdStoreTest, TheKeyNamesTheGenerationAndPiecesLieUnderItByNumber) {
  const auto store = OpenInNewTerm();
  const int64_t term = Revision();
  ASSERT_TRUE(Save(store.get(), "abc").ok());
  const std::vector<etcdserverpb::KeyValue> kept = Kept();
  ASSERT_EQ(kept.size(), 2u);
  const std::string generation_key = absl::StrFormat("/test/state/%020d-00000000000000000001/", term);
  EXPECT_EQ(kept[0].key(), kStateKey);
  // SHA-256 of "abc", from FIPS 180-2.
  EXPECT_EQ(kept[0].value(), generation_key + " ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(kept[1].key(), generation_key + "8000000000000000");
  EXPECT_EQ(kept[1].value(), "abc");
}

TEST_F(EtcdStoreTest, WhatAnOlderBuildWroteIsReadAndReplaced) {
  for (const std::string& state : {std::string(), std::string("abc"), RandomBytes(1'300'000, 1)}) {
    const std::string when = absl::StrCat(state.size(), " bytes");
    const int64_t term = BeginTerm();
    WriteAsBefore(term, 1, "not this one");
    WriteAsBefore(term, 2, state);
    ExpectFoundAsBefore(state, when);
    ExpectFound(state, when);
    const std::string after = state + "and more";
    ASSERT_TRUE(Save(OpenInNewTerm().get(), after).ok()) << when;
    ExpectFound(after, when);
    ExpectNothingUnneeded(after, when);
  }
}

TEST_F(EtcdStoreTest, AnOlderBuildReadsAndReplacesWhatWasWritten) {
  std::string state = RandomBytes(700'000, 1);
  const auto store = OpenInNewTerm();
  ASSERT_TRUE(Save(store.get(), state).ok());
  const std::string generation_key = GenerationKey();
  ExpectFoundAsBefore(state, "a new generation");
  for (int save = 1; save <= 30; ++save) {
    const std::string when = absl::StrCat("save ", save);
    const size_t at = save * 7919 * 31 % state.size();
    state = state.substr(0, at) + RandomBytes(save % 3 * 5000, save) + state.substr(at + save % 4 * 3000 % 7000);
    ASSERT_TRUE(Save(store.get(), state).ok()) << when;
    ExpectFoundAsBefore(state, when);
    ExpectNothingUnneeded(state, when);
  }
  EXPECT_EQ(GenerationKey(), generation_key) << "or it was not changed in place";
  ASSERT_TRUE(Save(store.get(), "").ok());
  ExpectFoundAsBefore("", "nothing");

  WriteAsBefore(BeginTerm(), 1, "by an older build");
  ExpectFound("by an older build", "an older build leads");
  EXPECT_THAT(KeptPieces(), SizeIs(1));
  EXPECT_TRUE(absl::IsFailedPrecondition(Save(store.get(), state)));
  ExpectFound("by an older build", "a former leader is late");
}

TEST_F(EtcdStoreTest, APieceThatIsMissingChangedOrTooManyIsDataLoss) {
  const std::string state = RandomBytes(100'000, 1);
  const auto store = OpenInNewTerm();
  ASSERT_TRUE(Save(store.get(), Changed(state, 50'000)).ok());
  ASSERT_TRUE(Save(store.get(), state).ok());
  const auto expect_data_loss = [this](const std::string& when) {
    const absl::Status status = EtcdStore(&direct_, kLeaderKey, 0).Load().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << when << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("is damaged or was not written by this version"));
  };
  for (const etcdserverpb::KeyValue& piece : KeptPieces()) {
    Delete(piece.key());
    expect_data_loss("a piece is missing");
    Put(piece.key(), Changed(piece.value(), 0));
    expect_data_loss("a piece is another one");
    Put(piece.key(), piece.value());
    Put(piece.key() + "0", "x");
    expect_data_loss("there is a piece too many");
    Delete(piece.key() + "0");
  }
  ExpectFound(state, "all is as it was");
}

}  // namespace
}  // namespace shoal::scheduler
