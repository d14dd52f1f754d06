// What a plan leaves of the pieces that were there, and how little it does for a small change.
#include "scheduler/store/piece_plan.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/store/content_pieces.h"
#include "scheduler/store/state_codec.h"
#include "tests/conformance/store/random_bytes.h"

namespace shoal::scheduler {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

size_t PutBytes(const PiecePlan& plan) {
  size_t bytes = 0;
  for (const PiecePlan::Put& put : plan.puts) bytes += put.bytes.size();
  return bytes;
}

// Pieces as they are given; each letter is one.
std::vector<StatePiece> Letters(const std::string& letters) {
  std::vector<StatePiece> pieces;
  for (const char letter : letters) pieces.push_back({.bytes = {}, .digest = std::string(1, letter)});
  return pieces;
}

// A place with ordered keys, as etcd is one.
class Pieces {
 public:
  // Expects what holds for each plan.
  void Do(const PiecePlan& plan) {
    std::set<uint64_t> touched;
    for (const PiecePlan::Put& put : plan.puts) {
      EXPECT_TRUE(touched.insert(put.number).second) << "etcd refuses a transaction with two operations on a key";
      by_number_[put.number] = put.bytes;
    }
    for (const uint64_t number : plan.removed) {
      EXPECT_TRUE(touched.insert(number).second) << "etcd refuses a transaction with two operations on a key";
      EXPECT_EQ(by_number_.erase(number), 1u) << "what is removed is there";
    }
    kept_ = plan.kept;
    ASSERT_EQ(kept_.size(), by_number_.size());
    auto kept = kept_.begin();
    for (const auto& [number, bytes] : by_number_) {
      ASSERT_EQ(kept->number, number);
      ASSERT_TRUE(kept->digest == Sha256Of(bytes)) << "the plan knows what lies there";
      ++kept;
    }
  }
  // As a scheduler's store does it. Returns whether it was a change of what lay there.
  bool Save(const std::string& state) {
    const std::vector<StatePiece> wanted = CutState(state);
    const std::optional<PiecePlan> change = PlanChange(kept_, wanted);
    if (change.has_value()) {
      EXPECT_LE(change->puts.size() + change->removed.size() + 1, kMostOperations);
      EXPECT_LE(PutBytes(*change), kMostPutBytes);
      Do(*change);
      return true;
    }
    by_number_.clear();
    Do(PlanAnew(wanted));
    return false;
  }
  std::string State() const {
    std::string state;
    for (const auto& [number, bytes] : by_number_) state += bytes;
    return state;
  }
  const std::vector<KeptPiece>& kept() const { return kept_; }

 private:
  std::map<uint64_t, std::string> by_number_;
  std::vector<KeptPiece> kept_;
};

TEST(PiecePlan, NothingIsNoPieces) {
  EXPECT_THAT(CutState(""), IsEmpty());
  EXPECT_THAT(PlanAnew({}).puts, IsEmpty());
}

TEST(PiecePlan, AStateAnewIsItsPiecesInOrderWithRoomBetweenThem) {
  for (const std::string& state :
       {std::string("x"), std::string("\0a\n\xff", 4), std::string(1'000'000, 'x'), RandomBytes(20'000'000, 1)}) {
    Pieces pieces;
    pieces.Do(PlanAnew(CutState(state)));
    EXPECT_TRUE(pieces.State() == state) << state.size() << " bytes";
    uint64_t before = 0;
    for (const KeptPiece& piece : pieces.kept()) {
      EXPECT_GE(piece.number - before, uint64_t{1} << 40);
      before = piece.number;
    }
    EXPECT_GE(std::numeric_limits<uint64_t>::max() - before, uint64_t{1} << 40);
  }
}

TEST(PiecePlan, WhatDoesNotChangeIsNotPut) {
  const std::vector<StatePiece> pieces = CutState(RandomBytes(300'000, 1));
  const std::optional<PiecePlan> plan = PlanChange(PlanAnew(pieces).kept, pieces);
  ASSERT_TRUE(plan.has_value());
  EXPECT_THAT(plan->puts, IsEmpty());
  EXPECT_THAT(plan->removed, IsEmpty());
  EXPECT_THAT(plan->kept, SizeIs(pieces.size()));
}

TEST(PiecePlan, AReplacedPieceKeepsItsNumber) {
  const std::vector<KeptPiece> kept = PlanAnew(Letters("abc")).kept;
  const std::optional<PiecePlan> plan = PlanChange(kept, Letters("axc"));
  ASSERT_TRUE(plan.has_value());
  ASSERT_THAT(plan->puts, SizeIs(1));
  EXPECT_EQ(plan->puts[0].number, kept[1].number);
  EXPECT_THAT(plan->removed, IsEmpty());
}

TEST(PiecePlan, OnePieceThatMovesIsOnePutAndOneRemoved) {
  for (const char* moved : {"habcdefg", "bcdefgha", "abdefgch", "agbcdefh"}) {
    const std::optional<PiecePlan> plan = PlanChange(PlanAnew(Letters("abcdefgh")).kept, Letters(moved));
    ASSERT_TRUE(plan.has_value()) << moved;
    EXPECT_THAT(plan->puts, SizeIs(1)) << moved;
    EXPECT_THAT(plan->removed, SizeIs(1)) << moved;
  }
}

TEST(PiecePlan, EqualPiecesThatBecomeMoreOrLessStay) {
  const std::optional<PiecePlan> more = PlanChange(PlanAnew(Letters("axxxxb")).kept, Letters("axxxxxxb"));
  ASSERT_TRUE(more.has_value());
  EXPECT_THAT(more->puts, SizeIs(2));
  EXPECT_THAT(more->removed, IsEmpty());
  const std::optional<PiecePlan> less = PlanChange(more->kept, Letters("axb"));
  ASSERT_TRUE(less.has_value());
  EXPECT_THAT(less->puts, IsEmpty());
  EXPECT_THAT(less->removed, SizeIs(5));
}

TEST(PiecePlan, NumbersRunOutLateAndOnlyWhereThePlaceIsAlwaysTheSame) {
  // Behind all, and before all, there is as much room as anybody needs.
  for (const bool at_end : {false, true}) {
    std::vector<StatePiece> pieces = Letters("a");
    std::vector<KeptPiece> kept = PlanAnew(pieces).kept;
    for (int i = 0; i < 3000; ++i) {
      pieces.insert(at_end ? pieces.end() : pieces.begin(), {.bytes = {}, .digest = absl::StrCat(i)});
      const std::optional<PiecePlan> plan = PlanChange(kept, pieces);
      ASSERT_TRUE(plan.has_value()) << i;
      kept = plan->kept;
    }
  }
  // Between the same two it is halved each time.
  for (const int place : {1, 2}) {
    std::vector<StatePiece> pieces = Letters("abc");
    std::vector<KeptPiece> kept = PlanAnew(pieces).kept;
    int inserted = 0;
    for (;; ++inserted) {
      ASSERT_LT(inserted, 1000) << "there is always room";
      pieces.insert(pieces.begin() + place, {.bytes = {}, .digest = absl::StrCat(inserted)});
      const std::optional<PiecePlan> plan = PlanChange(kept, pieces);
      if (!plan.has_value()) break;
      kept = plan->kept;
    }
    EXPECT_GE(inserted, 30);
    EXPECT_TRUE(PlanChange(PlanAnew(pieces).kept, pieces).has_value());
  }
}

TEST(PiecePlan, ThereIsRoomForOnePieceBetweenNumbersThatAreTwoApart) {
  constexpr uint64_t kLast = std::numeric_limits<uint64_t>::max();
  const auto fits = [](uint64_t first, uint64_t second, const std::string& wanted) {
    return PlanChange({{.number = first, .digest = "a"}, {.number = second, .digest = "b"}}, Letters(wanted))
        .has_value();
  };
  EXPECT_TRUE(fits(10, 12, "axb"));
  EXPECT_FALSE(fits(10, 12, "axyb"));
  EXPECT_FALSE(fits(10, 11, "axb"));
  EXPECT_TRUE(fits(2, 3, "xab"));
  EXPECT_FALSE(fits(1, 3, "xab"));
  EXPECT_TRUE(fits(1, kLast - 2, "abx"));
  EXPECT_FALSE(fits(1, kLast - 1, "abx"));
}

TEST(PiecePlan, WhatIsTooMuchForOneTransactionDoesNotFit) {
  std::vector<StatePiece> pieces;
  const auto add = [&pieces](std::string_view bytes) {
    pieces.push_back({.bytes = bytes, .digest = absl::StrCat(pieces.size())});
  };
  for (size_t i = 0; i + 1 < kMostOperations; ++i) add("x");
  const std::vector<KeptPiece> kept = PlanAnew(pieces).kept;
  EXPECT_TRUE(PlanChange({}, pieces).has_value());
  EXPECT_TRUE(PlanChange(kept, {}).has_value());
  add("x");
  EXPECT_FALSE(PlanChange({}, pieces).has_value()) << "there is no operation left for the name of the state";
  EXPECT_FALSE(PlanChange(PlanAnew(pieces).kept, {}).has_value());
  EXPECT_TRUE(PlanChange(kept, pieces).has_value()) << "one more";

  pieces.clear();
  const std::string half(kMostPutBytes / 2, 'x');
  add(half);
  add(half);
  EXPECT_TRUE(PlanChange({}, pieces).has_value());
  add("x");
  EXPECT_FALSE(PlanChange({}, pieces).has_value());
}

// What a scheduler may do with its state, and more.
std::string Edited(const std::string& state, std::mt19937_64* random) {
  const auto below = [random](size_t end) { return end == 0 ? 0 : (*random)() % end; };
  const size_t at = below(state.size() + 1);
  const size_t length = below(std::min<size_t>(state.size() - at, 40'000) + 1);
  const std::string rest = state.substr(0, at) + state.substr(at + length);
  const size_t other = below(rest.size() + 1);
  switch (below(9)) {
    case 0:
      return state.substr(0, at) + RandomBytes(1 + below(40'000), (*random)()) + state.substr(at);
    case 1:
      return rest;
    case 2:  // a block moves
      return rest.substr(0, other) + state.substr(at, length) + rest.substr(other);
    case 3:  // a block repeats
      return state.substr(0, at) + state.substr(at, length) + state.substr(at);
    case 4:
      return state.substr(0, at) + std::string(below(300'000), 'x') + state.substr(at);
    case 5:
      return state + RandomBytes(below(20'000), (*random)());
    case 6:
      return RandomBytes(below(20'000), (*random)()) + state;
    case 7: {  // the last blocks of a large state go
      return state.substr(0, std::min<size_t>(state.size(), 600'000));
    }
    default: {
      std::string changed = state;
      for (size_t i = at; i < at + std::min<size_t>(length, 8); ++i) changed[i] = static_cast<char>((*random)());
      return changed;
    }
  }
}

TEST(PiecePlan, WhateverIsEditedTheStateIsThere) {
  std::mt19937_64 random(7);
  Pieces pieces;
  std::string state;
  int changes = 0;
  constexpr int kEdits = 3000;
  for (int edit = 0; edit < kEdits; ++edit) {
    if (edit % 500 == 499) state.clear();
    if (edit % 500 == 250) state = RandomBytes(400'000, random());
    state = Edited(state, &random);
    changes += pieces.Save(state) ? 1 : 0;
    ASSERT_TRUE(pieces.State() == state) << "edit " << edit;
    ASSERT_FALSE(HasFailure()) << "edit " << edit;
  }
  EXPECT_GT(changes, kEdits * 9 / 10);
  EXPECT_LT(changes, kEdits) << "all of them was small";
}

// Sequences with many equal pieces, for which the longest run is not found by looking at the digests alone.
TEST(PiecePlan, WhateverPiecesRepeatTheOrderIsThatOfTheState) {
  std::mt19937_64 random(8);
  std::map<uint64_t, std::string> lies_there;
  std::vector<KeptPiece> kept;
  for (int step = 0; step < 20'000; ++step) {
    std::string wanted(random() % 60, '\0');
    for (char& letter : wanted) letter = static_cast<char>('a' + random() % (1 + step % 26));
    const std::vector<StatePiece> pieces = Letters(wanted);
    std::optional<PiecePlan> plan = PlanChange(kept, pieces);
    if (!plan.has_value()) {
      lies_there.clear();
      plan = PlanAnew(pieces);
    }
    for (const uint64_t number : plan->removed) ASSERT_EQ(lies_there.erase(number), 1u);
    for (const PiecePlan::Put& put : plan->puts) lies_there[put.number] = "";
    ASSERT_EQ(plan->kept.size(), wanted.size());
    ASSERT_EQ(lies_there.size(), wanted.size());
    auto there = lies_there.begin();
    for (size_t i = 0; i < wanted.size(); ++i, ++there) {
      const KeptPiece& piece = plan->kept[i];
      ASSERT_EQ(piece.number, there->first);
      ASSERT_EQ(piece.digest, wanted.substr(i, 1));
      const bool is_put = std::any_of(plan->puts.begin(), plan->puts.end(),
                                      [&](const PiecePlan::Put& put) { return put.number == piece.number; });
      if (is_put) {
        there->second = piece.digest;
      } else {
        ASSERT_EQ(there->second, piece.digest) << "it stays, and is another one";
      }
    }
    kept = plan->kept;
  }
}

TEST(PiecePlan, ASmallChangeOfALargeStateIsFewOperationsAndFewBytesWhereverItIs) {
  constexpr size_t kMostBytes = 100'000;
  constexpr size_t kFew = 10;
  for (const size_t size : {size_t{1} << 20, size_t{20'000'000}}) {
    const std::string state = RandomBytes(size, 7);
    const std::vector<KeptPiece> kept = PlanAnew(CutState(state)).kept;
    for (const size_t at : {size_t{0}, size / 3, size - 1}) {
      std::string changed = state;
      changed[at] = static_cast<char>(changed[at] ^ 1);
      for (const std::string& after :
           {changed, state.substr(0, at) + "more" + state.substr(at), state.substr(0, at) + state.substr(at + 1)}) {
        const std::optional<PiecePlan> plan = PlanChange(kept, CutState(after));
        ASSERT_TRUE(plan.has_value());
        EXPECT_LE(plan->puts.size() + plan->removed.size(), kFew);
        EXPECT_LT(PutBytes(*plan), kMostBytes);
      }
    }
  }
}

// As it is in a fleet: what the scheduler saves, of which one rank of one job changes.
TEST(PiecePlan, AChangeOfOneJobIsASmallPartOfAFleetsState) {
  constexpr uint32_t kJobs = 80;
  constexpr uint32_t kRanks = 64;
  std::mt19937_64 random(8);
  PersistedState fleet;
  fleet.cluster_id = "0123456789abcdef";
  for (uint32_t j = 0; j < kJobs; ++j) {
    JobState job;
    job.id = JobId(fleet.next_job_id++);
    job.name = absl::StrCat("train-", j);
    job.world_size = kRanks;
    job.phase = JobPhase::kRunning;
    GroupState group{.id = GroupId(fleet.next_group_id++), .name = "world"};
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      const std::string node = absl::StrCat("gpu-", j * 8 + rank / 8);
      job.ranks[JobRank(rank)] = {.incarnation = Incarnation(random()), .node = node, .pid = rank + 1000};
      group.ranks.push_back(JobRank(rank));
      group.opening.answered.push_back({job.ranks[JobRank(rank)].incarnation, 1});
    }
    job.groups.push_back(std::move(group));
    fleet.jobs.push_back(std::move(job));
  }
  const std::string state = EncodeState(fleet);
  ASSERT_GT(state.size(), 200'000u);
  const std::vector<KeptPiece> kept = PlanAnew(CutState(state)).kept;
  for (const uint32_t which : {0u, kJobs / 2, kJobs - 1}) {
    PersistedState changed = fleet;
    changed.epoch = Epoch(7);
    changed.jobs[which].ranks[JobRank(5)].phase = MemberPhase::kLost;
    changed.jobs[which].ranks[JobRank(5)].reason = "no heartbeat for 10 s";
    const std::string after = EncodeState(changed);
    const std::optional<PiecePlan> plan = PlanChange(kept, CutState(after));
    ASSERT_TRUE(plan.has_value()) << "of job " << which;
    EXPECT_LT(PutBytes(*plan), state.size() / 10) << "of job " << which;
    RecordProperty(absl::StrCat("put_bytes_of_job_", which), static_cast<int>(PutBytes(*plan)));
  }
}

}  // namespace
}  // namespace shoal::scheduler
