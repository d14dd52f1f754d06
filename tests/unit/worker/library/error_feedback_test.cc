#include "worker/library/error_feedback.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "reduce/convert.h"

namespace shoal {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::vector<float> Random(size_t count, uint32_t seed) {
  std::mt19937 source(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(source);
  return values;
}

// Without moving it: a tensor is known by its place.
void Fill(std::vector<float>* tensor, uint32_t seed) {
  std::ranges::copy(Random(tensor->size(), seed), tensor->begin());
}

std::vector<float> AsSent(WireFormat wire, const std::vector<float>& values) {
  const WireCodec codec(DataType::kFloat32, wire);
  std::vector<std::byte> bytes(codec.WireBytes(values.size()));
  std::vector<float> sent(values.size());
  Encode(codec, reinterpret_cast<const std::byte*>(values.data()), bytes.data(), values.size());
  Decode(codec, bytes.data(), reinterpret_cast<std::byte*>(sent.data()), values.size());
  return sent;
}

std::vector<float> Kept(const ErrorFeedback& feedback, size_t index) {
  uint64_t count = 0;
  if (!feedback.Read(index, nullptr, &count).ok()) return {};
  std::vector<float> values(count);
  EXPECT_EQ(feedback.Read(index, values.data(), &count), absl::OkStatus());
  return values;
}

class ErrorFeedbackTest : public testing::TestWithParam<WireFormat> {};

TEST_P(ErrorFeedbackTest, WhatRoundingTakesIsAddedToTheNextContribution) {
  constexpr size_t kElements = 5'003;  // some pieces, and a short block
  constexpr int kSteps = 50;
  ErrorFeedback feedback(GetParam());
  std::vector<float> tensor(kElements);
  std::vector<double> wanted(kElements);
  std::vector<double> sent(kElements);
  for (int step = 0; step < kSteps; ++step) {
    Fill(&tensor, 100 + step);
    for (size_t i = 0; i < kElements; ++i) wanted[i] += tensor[i];
    ASSERT_EQ(feedback.Apply(tensor.data(), kElements), absl::OkStatus());
    EXPECT_EQ(AsSent(GetParam(), tensor), tensor) << "it is sent as it is";
    for (size_t i = 0; i < kElements; ++i) sent[i] += tensor[i];
  }
  const std::vector<float> kept = Kept(feedback, 0);
  ASSERT_EQ(kept.size(), kElements);
  // All that was not sent is kept, but for the rounding of float32 in one addition a step.
  for (size_t i = 0; i < kElements; ++i) ASSERT_NEAR(sent[i] + kept[i], wanted[i], kSteps * 1e-6) << i;
}

TEST_P(ErrorFeedbackTest, EachPlaceHasItsOwn) {
  ErrorFeedback feedback(GetParam());
  std::vector<float> first = Random(100, 1);
  std::vector<float> second = Random(100, 2);
  const std::vector<float> of_second = second;
  ASSERT_EQ(feedback.Apply(first.data(), 100), absl::OkStatus());
  ASSERT_EQ(feedback.Apply(second.data(), 100), absl::OkStatus());
  EXPECT_EQ(second, AsSent(GetParam(), of_second)) << "nothing of the first tensor";
  ASSERT_EQ(feedback.Apply(first.data(), 50), absl::OkStatus());  // another one that begins there
  EXPECT_EQ(Kept(feedback, 0).size(), 100u);
  EXPECT_EQ(Kept(feedback, 1).size(), 100u);
  EXPECT_EQ(Kept(feedback, 2).size(), 50u);
  uint64_t count = 0;
  EXPECT_TRUE(absl::IsNotFound(feedback.Read(3, nullptr, &count)));
}

TEST_P(ErrorFeedbackTest, WhatWasSavedGoesToTensorsOfTheSameSizeInTheirOrder) {
  ErrorFeedback before(GetParam());
  std::vector<std::vector<float>> tensors = {Random(100, 1), Random(64, 2), Random(100, 3)};
  for (std::vector<float>& tensor : tensors) ASSERT_EQ(before.Apply(tensor.data(), tensor.size()), absl::OkStatus());
  ErrorFeedback after(GetParam());
  for (size_t i = 0; i < tensors.size(); ++i) ASSERT_EQ(after.Add(Kept(before, i)), absl::OkStatus());
  std::vector<std::vector<float>> moved = {Random(100, 4), Random(64, 5), Random(100, 6)};
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i] = moved[i];
    ASSERT_EQ(before.Apply(tensors[i].data(), tensors[i].size()), absl::OkStatus());
    ASSERT_EQ(after.Apply(moved[i].data(), moved[i].size()), absl::OkStatus());
    EXPECT_EQ(moved[i], tensors[i]);
    EXPECT_EQ(Kept(after, i), Kept(before, i));
  }
}

TEST_P(ErrorFeedbackTest, OfWhatIsNotFiniteNothingIsKept) {
  ErrorFeedback feedback(GetParam());
  std::vector<float> tensor = Random(100, 1);
  ASSERT_EQ(feedback.Apply(tensor.data(), 100), absl::OkStatus());
  Fill(&tensor, 2);
  tensor[7] = std::numeric_limits<float>::quiet_NaN();
  tensor[70] = -std::numeric_limits<float>::infinity();
  ASSERT_EQ(feedback.Apply(tensor.data(), 100), absl::OkStatus());
  EXPECT_TRUE(std::isnan(tensor[7]));
  EXPECT_EQ(tensor[70], -std::numeric_limits<float>::infinity());
  EXPECT_THAT(Kept(feedback, 0), Each(0.0f));
}

TEST_P(ErrorFeedbackTest, ThePlaceThatWasUsedLeastRecentlyIsForgotten) {
  ErrorFeedback feedback(GetParam());
  std::vector<float> tensors = Random(ErrorFeedback::kMaxPlaces + 1, 1);
  for (size_t i = 0; i < ErrorFeedback::kMaxPlaces; ++i) ASSERT_EQ(feedback.Apply(&tensors[i], 1), absl::OkStatus());
  EXPECT_TRUE(absl::IsResourceExhausted(feedback.Add({1.0f})));
  const std::vector<float> second = Kept(feedback, 1);
  tensors[0] = 0.0f;
  ASSERT_EQ(feedback.Apply(tensors.data(), 1), absl::OkStatus());  // so it is not the first that goes
  ASSERT_EQ(feedback.Apply(&tensors[ErrorFeedback::kMaxPlaces], 1), absl::OkStatus());
  EXPECT_NE(Kept(feedback, 1), second);
  uint64_t count = 0;
  EXPECT_TRUE(absl::IsNotFound(feedback.Read(ErrorFeedback::kMaxPlaces, nullptr, &count)));
}

TEST_P(ErrorFeedbackTest, RoomThatIsNotEnoughIsNotWrittenTo) {
  ErrorFeedback feedback(GetParam());
  ASSERT_EQ(feedback.Add({1.0f, 2.0f}), absl::OkStatus());
  std::vector<float> room = {5.0f};
  uint64_t count = 1;
  EXPECT_TRUE(absl::IsInvalidArgument(feedback.Read(0, room.data(), &count)));
  EXPECT_EQ(count, 2u);
  EXPECT_THAT(room, ElementsAre(5.0f));
}

INSTANTIATE_TEST_SUITE_P(Wires, ErrorFeedbackTest, testing::ValuesIn(kNarrowWires.begin(), kNarrowWires.end()));

}  // namespace
}  // namespace shoal
