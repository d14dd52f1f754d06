// What becomes of the state in a real etcd when transactions of its saves are refused, lost, done unheard, late or
// twice.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/scheduler/store/etcd_store_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

class EtcdStoreLossesTest : public EtcdStoreTest {};

TEST_F(EtcdStoreLossesTest, AFormerTermIsRefusedAtEachStepOfASave) {
  const std::string former = RandomBytes(1'200'000, 1);
  const std::string latter = RandomBytes(1'200'000, 2);
  int refused = 0;
  for (int step = 0;; ++step) {
    const std::string when = absl::StrCat("step ", step);
    ASSERT_TRUE(Save(OpenInNewTerm().get(), former).ok()) << when;
    const auto store = OpenInNewTerm();
    bool has_ended = false;
    LetOneOfTheNext(-1, Fate::kIsDone, [&](int number) {
      if (number != step) return;
      BeginTerm();
      has_ended = true;
    });
    const absl::Status status = Save(store.get(), latter);
    way_.SetJudge(nullptr);
    EXPECT_EQ(store->term_is_over(), has_ended) << when;
    if (!has_ended) {
      EXPECT_TRUE(status.ok()) << status;
      break;
    }
    if (status.ok()) {
      ExpectFound(latter, when);  // it had been saved; what was to be removed stays
    } else {
      ++refused;
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("another scheduler leads"));
      ExpectFound(former, when);
    }
    const int64_t revision = Revision();
    EXPECT_TRUE(absl::IsFailedPrecondition(Save(store.get(), "late"))) << when;
    EXPECT_EQ(Revision(), revision) << when << ": it has changed something";
  }
  EXPECT_GE(refused, 3) << "two or more of pieces, and the one that moves the state";
}

TEST_F(EtcdStoreLossesTest, AFormerTermIsRefusedAChange) {
  const std::string state = RandomBytes(300'000, 1);
  const auto store = OpenInNewTerm();
  ASSERT_TRUE(Save(store.get(), state).ok());
  BeginTerm();
  for (const std::string& after : {Changed(state, 1000), state}) {
    const int64_t revision = Revision();
    const absl::Status status = Save(store.get(), after);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(store->term_is_over());
    EXPECT_EQ(Revision(), revision) << "it has changed something";
  }
  ExpectFound(state, "the term is over");
}

TEST_F(EtcdStoreLossesTest, ASaveOfWhichAnyStepIsLostCanBeRepeated) {
  const std::string former = RandomBytes(600'000, 1);
  for (const std::string& latter : {RandomBytes(600'000, 2), Changed(former, 1000)}) {
    bool was_lost = true;
    for (int step = 0; was_lost; ++step) {
      const std::string when = absl::StrCat("step ", step);
      const auto store = OpenInNewTerm();
      ASSERT_TRUE(Save(store.get(), former).ok()) << when;
      was_lost = false;
      LetOneOfTheNext(step, Fate::kIsLost, [&](int number) { was_lost |= number == step; });
      const absl::Status status = Save(store.get(), latter);
      way_.SetJudge(nullptr);
      EXPECT_FALSE(store->term_is_over());
      EXPECT_NE(status.ok(), was_lost) << when << ": " << status;
      ExpectFound(status.ok() ? latter : former, when);
      ASSERT_TRUE(Save(store.get(), latter).ok()) << when;
      ExpectFound(latter, when);
      ExpectNothingUnneeded(latter, when);
    }
  }
}

TEST_F(EtcdStoreLossesTest, ATransactionWhoseAnswerWasLostIsRepeatedWithoutHarm) {
  std::string state = RandomBytes(600'000, 1);
  const auto store = OpenInNewTerm();
  bool is_heard = true;
  way_.SetJudge([&is_heard](const etcdserverpb::TxnRequest&) {
    is_heard = !is_heard;
    return is_heard ? Fate::kIsDone : Fate::kIsDoneUnheard;
  });
  const auto save = [&](const std::string& when) {
    const absl::Status status = Save(store.get(), state);
    EXPECT_TRUE(status.ok()) << when << ": " << status;
    ExpectFound(state, when);
    ExpectNothingUnneeded(state, when);
  };
  for (uint64_t number = 1; number <= 3; ++number) {
    save(absl::StrCat("save ", number));
    save(absl::StrCat("the same again ", number));
    state = Changed(state, number * 100'000);
    const std::string generation_key = GenerationKey();
    save(absl::StrCat("a change ", number));
    EXPECT_EQ(GenerationKey(), generation_key) << "it is known what was done unheard";
    state = RandomBytes(300'000, number) + state.substr(0, 300'000);
  }
}

// Each transaction of the second save is given up and done at each step of the third one: that of a change, or those of
// a new generation.
TEST_F(EtcdStoreLossesTest, WhatEtcdDoesAfterItWasGivenUpLeavesTheStateWhole) {
  const std::string first = RandomBytes(600'000, 1);
  const std::string third = "with a change" + first;
  const std::string fourth = third + "and another";
  for (const std::string& second : {Changed(first, 1000), RandomBytes(600'000, 2)}) {
    int aborted = 0;
    bool was_given_up = true;
    for (int given_up = 0; was_given_up; ++given_up) {
      bool was_done_meanwhile = true;
      for (int done_at = 0; was_done_meanwhile; ++done_at) {
        const std::string when = absl::StrCat("transaction ", given_up, ", done at ", done_at);
        const auto store = OpenInNewTerm();
        ASSERT_TRUE(Save(store.get(), first).ok()) << when;
        was_given_up = false;
        LetOneOfTheNext(given_up, Fate::kIsLate, [&](int number) { was_given_up |= number == given_up; });
        Save(store.get(), second).IgnoreError();
        way_.SetJudge(nullptr);
        if (!was_given_up) break;

        was_done_meanwhile = false;
        LetOneOfTheNext(-1, Fate::kIsDone, [&](int number) {
          if (number != done_at) return;
          way_.DoLate();
          was_done_meanwhile = true;
        });
        const absl::Status status = Save(store.get(), third);
        way_.SetJudge(nullptr);
        if (!status.ok()) {
          EXPECT_TRUE(absl::IsAborted(status)) << status;
          ++aborted;
          ExpectFound(second, when);
          ASSERT_TRUE(Save(store.get(), third).ok()) << when;
        }
        ExpectFound(third, when);
        way_.DoLate();  // the last time it is after the whole save
        ExpectFound(third, when);
        ExpectNothingUnneeded(third, when);
        ASSERT_TRUE(Save(store.get(), fourth).ok()) << when;
        ExpectFound(fourth, when);
        ExpectNothingUnneeded(fourth, when);
        EXPECT_FALSE(store->term_is_over()) << when;
        ASSERT_FALSE(HasFailure());
      }
    }
    EXPECT_GT(aborted, 0) << "what was done late never was in the way";
  }
}

// The client has asked again, and been answered, when etcd does each transaction of a save a second time. By then other
// saves have changed the pieces that it puts.
TEST_F(EtcdStoreLossesTest, WhatEtcdDoesTwiceLeavesTheStateWhole) {
  const std::string first = RandomBytes(600'000, 1);
  const std::string second = RandomBytes(600'000, 2);
  const std::string third = "with a change" + second.substr(20'000, 300'000) + second.substr(320'000);
  for (const std::string& base : {second, Changed(first, 1000)}) {
    bool was_late = true;
    for (int step = 0; was_late; ++step) {
      const std::string when = absl::StrCat("step ", step);
      const auto store = OpenInNewTerm();
      ASSERT_TRUE(Save(store.get(), first).ok()) << when;
      was_late = false;
      LetOneOfTheNext(step, Fate::kIsLateUnheard, [&](int number) { was_late |= number == step; });
      ASSERT_TRUE(Save(store.get(), base).ok()) << when;
      way_.SetJudge(nullptr);
      ASSERT_TRUE(Save(store.get(), third).ok()) << when;
      const int64_t revision = Revision();
      way_.DoLate();
      EXPECT_EQ(Revision(), revision) << when << ": it has changed something";
      ExpectFound(third, when);
      ExpectNothingUnneeded(third, when);
      ASSERT_FALSE(HasFailure());
    }
  }
}

}  // namespace
}  // namespace shoal::scheduler
