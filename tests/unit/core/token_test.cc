#include "core/token.h"

#include <string>

#include "absl/strings/escaping.h"
#include "core/bucket_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kNowS = 1'800'000'000;

TokenKey Key(uint8_t first) {
  TokenKey key{};
  for (size_t i = 0; i < key.size(); ++i) key[i] = std::byte(first + i);
  return key;
}

GroupToken Signed(const TokenKey& key) {
  GroupToken token;
  token.job = JobId(1);
  token.group = GroupId(2);
  token.epoch = Epoch(3);
  token.incarnation = Incarnation(4);
  token.rank = Rank(5);
  token.group_size = 8;
  token.max_chunk_bytes = 65536;
  token.credit_chunks = 4;
  token.expires_at_unix_s = kNowS + 60;
  SignToken(key, &token);
  return token;
}

TEST(Token, ASignedTokenIsTakenAndItsSignatureIsFrozen) {
  const GroupToken token = Signed(Key(1));
  EXPECT_TRUE(CheckToken(Key(1), token, kNowS).ok());
  const absl::string_view bytes(reinterpret_cast<const char*>(token.signature.data()), token.signature.size());
  // HMAC-SHA256 as Python's hmac module computes it over the 60 signed bytes.
  EXPECT_EQ(absl::BytesToHexString(bytes), "140846fa169e53aa02c816d91a28acf362881948c2ea616e4d7d6b8b3fb7d086");
}

TEST(Token, EveryChangedByteIsNoticed) {
  const auto bytes = EncodeToken(Signed(Key(1)));
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      auto changed = bytes;
      changed[i] ^= std::byte(1 << bit);
      const absl::Status status = CheckToken(Key(1), *DecodeToken(changed), kNowS);
      EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << "byte " << i;
    }
  }
}

TEST(Token, AnotherKeyIsRefusedAndTheTextSaysWhatToDo) {
  const absl::Status status = CheckToken(Key(2), Signed(Key(1)), kNowS);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()), HasSubstr("do not belong to the same scheduler"));
}

TEST(Token, ExpiresToTheSecond) {
  const GroupToken token = Signed(Key(1));
  EXPECT_TRUE(CheckToken(Key(1), token, kNowS + 59).ok());
  const absl::Status status = CheckToken(Key(1), token, kNowS + 60);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ran out at unix time 1800000060 and it is 1800000060 now"));
}

TEST(Token, FieldsOutOfRangeAreRefusedEvenWhenSigned) {
  const auto check = [](auto change) {
    GroupToken token = Signed(Key(1));
    change(&token);
    SignToken(Key(1), &token);
    const absl::Status status = CheckToken(Key(1), token, kNowS);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(check([](GroupToken* t) { t->rank = Rank(8); }), HasSubstr("rank 8 of 8"));
  EXPECT_THAT(check([](GroupToken* t) { t->group_size = 0; }), HasSubstr("rank 5 of 0"));
  EXPECT_THAT(check([](GroupToken* t) { t->group_size = kMaxGroupSize + 1; }),
              HasSubstr("4097 ranks; a server sums at most 4096"));
  EXPECT_THAT(check([](GroupToken* t) { t->ranks_per_contribution = 0; }),
              HasSubstr("8 contributions of 0 ranks each"));
  EXPECT_THAT(check([](GroupToken* t) { t->ranks_per_contribution = kMaxGroupSize / 8 + 1; }),
              HasSubstr("8 contributions of 513 ranks each; a server averages over 1 to 4096 ranks in all"));
  EXPECT_THAT(check([](GroupToken* t) { t->max_chunk_bytes = kMinChunkBytes - 1; }), HasSubstr("1023 bytes"));
  EXPECT_THAT(check([](GroupToken* t) { t->max_chunk_bytes = kMaxChunkBytes + 1; }), HasSubstr("out of range"));
}

TEST(Token, ARailsRanksMayBringAsManyRanksInAllAsAGroupHas) {
  GroupToken token = Signed(Key(1));
  token.ranks_per_contribution = kMaxGroupSize / token.group_size;
  SignToken(Key(1), &token);
  EXPECT_TRUE(CheckToken(Key(1), token, kNowS).ok());
}

TEST(Roster, RanksKeepTheirNumbersAndMoveUpInPlaces) {
  const Roster roster(5, {Rank(1), Rank(3)});
  EXPECT_EQ(roster.size(), 5u);
  EXPECT_EQ(roster.count(), 3u);
  EXPECT_FALSE(roster.IsWhole());
  std::vector<uint32_t> places;
  for (const uint32_t rank : {0u, 2u, 4u}) {
    EXPECT_TRUE(roster.Has(Rank(rank)));
    places.push_back(roster.PlaceOf(Rank(rank)));
  }
  EXPECT_EQ(places, (std::vector<uint32_t>{0, 1, 2}));
  for (const uint32_t rank : {1u, 3u, 5u}) EXPECT_FALSE(roster.Has(Rank(rank)));
}

TEST(Roster, TheSchedulersWordIsCheckedAndOfOneEpochAlone) {
  const TokenKey key{std::byte{1}};
  const Roster roster(5, {Rank(1), Rank(3)});
  const std::vector<std::byte> sealed = SealRoster(key, GroupId(7), Epoch(9), roster);
  EXPECT_EQ(*CheckRoster(key, GroupId(7), Epoch(9), 5, sealed), roster);
  EXPECT_TRUE(SealRoster(key, GroupId(7), Epoch(9), Roster(5)).empty());
  EXPECT_EQ(*CheckRoster(key, GroupId(7), Epoch(9), 5, {}), Roster(5));
  EXPECT_TRUE(absl::IsUnauthenticated(CheckRoster(key, GroupId(7), Epoch(10), 5, sealed).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(CheckRoster(key, GroupId(8), Epoch(9), 5, sealed).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(CheckRoster(TokenKey{}, GroupId(7), Epoch(9), 5, sealed).status()));
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::vector<std::byte> changed = sealed;
    changed[i] ^= std::byte{1};
    EXPECT_FALSE(CheckRoster(key, GroupId(7), Epoch(9), 5, changed).ok()) << i;
  }
}

TEST(Roster, WhatNamesNoRanksOfTheGroupIsRefused) {
  const TokenKey key{std::byte{1}};
  const auto sealed_of = [&](std::vector<Rank> lost) {
    return SealRoster(key, GroupId(7), Epoch(9), Roster(100, std::move(lost)));
  };
  std::vector<Rank> too_many;
  for (uint32_t i = 0; i <= Roster::kMaxLost; ++i) too_many.emplace_back(i);
  const std::vector<std::vector<std::byte>> wrong = {
      sealed_of({Rank(4)}),          sealed_of({Rank(2), Rank(2)}),
      sealed_of({Rank(2), Rank(1)}), sealed_of({Rank(0), Rank(1), Rank(2), Rank(3)}),
      std::vector<std::byte>(32),    std::vector<std::byte>(3)};
  for (size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_TRUE(absl::IsInvalidArgument(DecodeRoster(4, wrong[i]).status())) << i;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeRoster(100, sealed_of(too_many)).status()));
  too_many.pop_back();
  EXPECT_TRUE(DecodeRoster(100, sealed_of(too_many)).ok());
  // What a hello says has room in a note.
  EXPECT_EQ(MakeHello({}, std::vector<std::byte>(kGroupTokenBytes), sealed_of(too_many)).size,
            kFrameHeaderBytes + kGroupTokenBytes + 4 * Roster::kMaxLost + 32);
}

}  // namespace
}  // namespace shoal
