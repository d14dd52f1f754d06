#include "perf/test_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/hash.h"
#include "perf/number_format.h"

namespace shoal {
namespace {

// SplitMix64's step, inlined here because checks make billions of numbers.
uint64_t Mix(uint64_t state) {
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
  return state ^ (state >> 31);
}

// Draws of one rank, or (as kNoRank) those that all ranks share.
class Draws {
 public:
  static constexpr uint64_t kNoRank = ~uint64_t{0};
  Draws(const TestData& test, uint64_t rank) : state_(StableHash({test.seed, rank})) {}
  uint64_t At(uint64_t index) const { return Mix(state_ + index * 0x9e3779b97f4a7c15u); }

 private:
  uint64_t state_;
};

// The integer that `rank` contributes to a test of small integers.
template <typename Format>
int SmallInteger(const TestData& test, uint64_t draw, bool is_chosen_rank) {
  constexpr bool kIsSigned = !std::is_same_v<typename Format::Stored, uint8_t>;
  if (test.op == ReduceOp::kProd) {
    // One rank gives 2, the others 1, so that no product leaves the range.
    const int magnitude = is_chosen_rank ? 2 : 1;
    return kIsSigned && (draw & 1u) != 0 ? -magnitude : magnitude;
  }
  return kIsSigned ? static_cast<int>(draw % 5) - 2 : static_cast<int>(draw % 4);
}

// A float with random sign and mantissa, and |x| in [1/16, 1).
template <typename Format>
typename Format::Stored RandomFloat(uint64_t draw) {
  using Stored = typename Format::Stored;
  const uint64_t mantissa = draw >> (64 - Format::kMantissaBits);
  const uint64_t exponent = static_cast<uint64_t>(Format::kExponentBias) - 1 - (draw & 3u);
  const uint64_t sign = (draw >> 2) & 1u;
  const uint64_t bits = (sign << (8 * sizeof(Stored) - 1)) | (exponent << Format::kMantissaBits) | mantissa;
  Stored stored;
  if constexpr (sizeof(Stored) == 2) {
    stored = static_cast<uint16_t>(bits);
  } else if constexpr (sizeof(Stored) == 4) {
    const uint32_t word = static_cast<uint32_t>(bits);
    std::memcpy(&stored, &word, sizeof(stored));
  } else {
    std::memcpy(&stored, &bits, sizeof(stored));
  }
  return stored;
}

template <typename Format>
typename Format::Stored Contribution(const TestData& test, uint64_t draw, bool is_chosen_rank) {
  using Stored = typename Format::Stored;
  if (test.kind == NumberKind::kSmallIntegers) {
    const int integer = SmallInteger<Format>(test, draw, is_chosen_rank);
    if constexpr (Format::kIsFloat) return Format::Encode(static_cast<typename Format::Wide>(integer));
    return static_cast<Stored>(integer);
  }
  if constexpr (Format::kIsFloat) return RandomFloat<Format>(draw);
  return static_cast<Stored>(draw);
}

uint64_t ChosenRank(const TestData& test, const Draws& shared, uint64_t index) {
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): there is a rank.
  return test.op == ReduceOp::kProd ? shared.At(index) % test.rank_count : 0;
}

// Integers, both kinds: modulo 2^64, cut to the type at the end.
template <typename Format>
class IntegerExpectation {
 public:
  using Stored = typename Format::Stored;

  explicit IntegerExpectation(const TestData& test) : test_(test) {}

  void Add(Stored value) {
    const uint64_t wide = static_cast<uint64_t>(static_cast<int64_t>(value));
    switch (test_.op) {
      case ReduceOp::kMin:
        extreme_ = count_ == 0 ? value : std::min(extreme_, value);
        break;
      case ReduceOp::kMax:
        extreme_ = count_ == 0 ? value : std::max(extreme_, value);
        break;
      case ReduceOp::kProd:
        total_ = count_ == 0 ? wide : total_ * wide;
        break;
      default:
        total_ += wide;
    }
    ++count_;
  }

  bool Accepts(Stored result) const { return result == Expected(); }
  std::string Text() const { return absl::StrCat(static_cast<int64_t>(Expected())); }
  static std::string Show(Stored value) { return absl::StrCat(static_cast<int64_t>(value)); }

 private:
  Stored Expected() const {
    if (test_.op == ReduceOp::kMin || test_.op == ReduceOp::kMax) return extreme_;
    const Stored total = static_cast<Stored>(total_);
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): each rank was added, and there is one.
    if (test_.op == ReduceOp::kAvg) return static_cast<Stored>(static_cast<int64_t>(total) / count_);
    return total;
  }

  const TestData& test_;
  uint64_t total_ = 0;
  Stored extreme_{};
  int64_t count_ = 0;
};

// Floats. Small integers are exact in the sum's type, so the result is known to the bit. Random numbers are summed in
// float64 (float64 itself: in long double) and may differ by what rounding can do: u for each operation of the fold,
// relative to the sum of magnitudes, and one rounding to the stored type.
template <typename Format>
class FloatExpectation {
 public:
  using Stored = typename Format::Stored;
  using Wide = typename Format::Wide;
  using Reference = std::conditional_t<std::is_same_v<Wide, double>, long double, double>;

  explicit FloatExpectation(const TestData& test) : test_(test) {}

  void Add(Stored stored) {
    Reference value = static_cast<Reference>(Format::Decode(stored));
    if (test_.op == ReduceOp::kPremulSum) value *= static_cast<Reference>(kPerfPremulFactor);
    magnitudes_ += std::fabs(value);
    if (count_ == 0) {
      total_ = value;
    } else if (test_.op == ReduceOp::kMin) {
      total_ = std::min(total_, value);
    } else if (test_.op == ReduceOp::kMax) {
      total_ = std::max(total_, value);
    } else if (test_.op == ReduceOp::kProd) {
      total_ *= value;
    } else {
      total_ += value;
    }
    ++count_;
  }

  bool Accepts(Stored result) const {
    const Reference value = static_cast<Reference>(Format::Decode(result));
    if (test_.kind == NumberKind::kSmallIntegers) {
      return value == static_cast<Reference>(Format::Decode(ExactResult()));
    }
    return IsWithin(result, 0);
  }
  // Random numbers: what rounding can do, and so much more.
  bool IsWithin(Stored result, Reference more) const {
    const Reference value = static_cast<Reference>(Format::Decode(result));
    return std::fabs(value - Expected()) <= Tolerance() + more;  // false for NaN
  }
  // No sum or product on the way to the result is larger; of an average: before it is divided, as part of it.
  Reference Reach() const {
    if (test_.op == ReduceOp::kProd) return std::fabs(total_);
    return test_.op == ReduceOp::kAvg ? magnitudes_ / static_cast<Reference>(count_) : magnitudes_;
  }
  // Small integers.
  Stored ExactResult() const {
    Wide total = static_cast<Wide>(total_);
    if (test_.op == ReduceOp::kAvg) total /= static_cast<Wide>(count_);
    return Format::Encode(total);
  }

  std::string Text() const {
    if (test_.kind == NumberKind::kSmallIntegers) return Show(ExactResult());
    return absl::StrFormat("%.9g +- %.2g", static_cast<double>(Expected()), static_cast<double>(Tolerance()));
  }
  static std::string Show(Stored value) { return absl::StrFormat("%.9g", static_cast<double>(Format::Decode(value))); }

 private:
  Reference Expected() const { return test_.op == ReduceOp::kAvg ? total_ / static_cast<Reference>(count_) : total_; }

  Reference Tolerance() const {
    if (test_.op == ReduceOp::kMin || test_.op == ReduceOp::kMax) return 0;
    const Reference unit = std::ldexp(Reference{1}, -Format::kSumBits) * Reference{1.01};
    const Reference folds = static_cast<Reference>(count_ - 1);
    Reference error = 0;
    if (test_.op == ReduceOp::kProd) {
      error = folds * unit * std::fabs(total_);
    } else if (test_.op == ReduceOp::kAvg) {
      error = folds * unit * magnitudes_ / static_cast<Reference>(count_) + unit * std::fabs(Expected());
    } else {
      error = folds * unit * magnitudes_;
    }
    if (Format::kMantissaBits + 1 < Format::kSumBits) {
      error += std::ldexp(std::fabs(Expected()) + error, -Format::kMantissaBits - 1);
    }
    return error + std::ldexp(Reference{1}, Format::kLeastExponent) * static_cast<Reference>(count_);
  }

  const TestData& test_;
  Reference total_ = 0;
  Reference magnitudes_ = 0;
  int64_t count_ = 0;
};

template <typename Format, bool kIsFloat>
struct ExpectationFor {
  using Type = IntegerExpectation<Format>;
};
template <typename Format>
struct ExpectationFor<Format, true> {
  using Type = FloatExpectation<Format>;
};

// Converts a number to a narrower format and back.
template <typename From, typename To>
typename To::Stored Converted(typename From::Stored stored) {
  if constexpr (std::is_same_v<From, To>) {
    return stored;
  } else {
    return To::Encode(static_cast<typename To::Wide>(From::Decode(stored)));
  }
}

// `Format`: of the tensor. `OnWire`: the format in which it is sent, which the result has as well.
template <typename Format, typename OnWire>
CheckOutcome CheckAs(const TestData& test, const std::byte* data, uint64_t element_count) {
  using Stored = typename Format::Stored;
  std::vector<Draws> draws;
  draws.reserve(test.rank_count);
  for (uint32_t rank = 0; rank < test.rank_count; ++rank) draws.emplace_back(test, rank);
  const Draws shared(test, Draws::kNoRank);
  CheckOutcome outcome;
  for (uint64_t i = 0; i < element_count; ++i) {
    typename ExpectationFor<OnWire, OnWire::kIsFloat>::Type expectation(test);
    const uint64_t chosen = ChosenRank(test, shared, i);
    for (uint32_t rank = 0; rank < test.rank_count; ++rank) {
      expectation.Add(Converted<Format, OnWire>(Contribution<Format>(test, draws[rank].At(i), rank == chosen)));
    }
    Stored result;
    std::memcpy(&result, data + i * sizeof(Stored), sizeof(Stored));
    const typename OnWire::Stored crossed = Converted<Format, OnWire>(result);
    const bool came_as_it_crossed = std::is_same_v<Format, OnWire> || Converted<OnWire, Format>(crossed) == result;
    if (came_as_it_crossed && expectation.Accepts(crossed)) continue;
    if (outcome.wrong == 0) {
      outcome.first_wrong =
          absl::StrCat("element ", i, " of ", element_count, " is ", expectation.Show(crossed),
                       came_as_it_crossed ? "" : " and more digits", " and should be ", expectation.Text());
    }
    ++outcome.wrong;
  }
  return outcome;
}

// Float32 sent in blocks, whose numbers are rounded together.
class BlockCheck {
 public:
  using Float32 = NumberFormat<DataType::kFloat32>;

  explicit BlockCheck(const TestData& test) : test_(test), wire_(test.codec.format()), shared_(test, Draws::kNoRank) {
    for (uint32_t rank = 0; rank < test.rank_count; ++rank) draws_.emplace_back(test, rank);
  }

  CheckOutcome Check(const std::byte* data, uint64_t element_count) {
    CheckOutcome outcome;
    for (uint64_t first = 0; first < element_count; first += kBlockElements) {
      results_.resize(std::min<uint64_t>(kBlockElements, element_count - first));
      std::memcpy(results_.data(), data + first * sizeof(float), results_.size() * sizeof(float));
      Expect(first);
      for (size_t i = 0; i < results_.size(); ++i) {
        const std::string wrong = WhatIsWrong(i);
        if (wrong.empty()) continue;
        if (outcome.wrong == 0) {
          outcome.first_wrong = absl::StrCat("element ", first + i, " of ", element_count, " is ", wrong);
        }
        ++outcome.wrong;
      }
    }
    return outcome;
  }

 private:
  // What the contributions to the block give.
  void Expect(uint64_t first) {
    const size_t count = results_.size();
    expectations_.clear();
    for (size_t i = 0; i < count; ++i) expectations_.emplace_back(test_);
    double reach = test_.op == ReduceOp::kProd ? 1 : 0;
    for (uint32_t rank = 0; rank < test_.rank_count; ++rank) {
      block_.clear();
      for (uint64_t i = first; i < first + count; ++i) {
        block_.push_back(Contribution<Float32>(test_, draws_[rank].At(i), rank == ChosenRank(test_, shared_, i)));
      }
      RoundAsBlock(wire_, block_);
      double largest = 0;
      for (size_t i = 0; i < count; ++i) {
        expectations_[i].Add(block_[i]);
        largest = std::max(largest, static_cast<double>(std::fabs(block_[i])));
      }
      reach = test_.op == ReduceOp::kProd ? reach * largest : reach + largest;
    }
    if (test_.op == ReduceOp::kAvg) reach /= test_.rank_count;
    reach_ = reach;
    block_.clear();
    for (size_t i = 0; i < count; ++i) {
      if (test_.kind == NumberKind::kSmallIntegers) {
        block_.push_back(expectations_[i].ExactResult());
      } else if (expectations_[i].IsWithin(results_[i], RoundingOf(i))) {
        block_.push_back(results_[i]);
      }
    }
    unit_ = UnitOfBlock(wire_, block_);
    if (test_.kind == NumberKind::kSmallIntegers) RoundAsBlock(wire_, block_);
  }

  // A number is rounded by a part of the largest in its block, in fp8 by one of its own and a little of the largest.
  double RoundingOf(size_t i) const {
    if (wire_ == WireFormat::kInt8) return RoundingWithin(reach_, 1 / 127.5);
    return RoundingWithin(expectations_[i].Reach(), 1 / 17.0) + RoundingWithin(reach_, 1 / 237'568.0);
  }

  // Ranks may have been summed within their nodes first, and those sums rounded as well.
  double RoundingWithin(double reach, double part) const {
    if (test_.op == ReduceOp::kProd) return reach * (std::pow(1 + part, test_.rank_count + 1) - 1);
    return 2 * part * (1 + part) * reach;
  }

  // Empty: nothing.
  std::string WhatIsWrong(size_t i) const {
    const std::string shown = FloatExpectation<Float32>::Show(results_[i]);
    if (test_.kind == NumberKind::kSmallIntegers) {
      if (results_[i] == block_[i]) return "";
      return absl::StrCat(shown, " and should be ", FloatExpectation<Float32>::Show(block_[i]));
    }
    if (const double rounding = RoundingOf(i); !expectations_[i].IsWithin(results_[i], rounding)) {
      return absl::StrCat(shown, " and should be ", expectations_[i].Text(), ", and ", rounding, " for its block");
    }
    if (RoundedInBlock(wire_, results_[i], unit_) == results_[i]) return "";
    return absl::StrCat(shown, " and more digits and should be ", expectations_[i].Text());
  }

  const TestData& test_;
  const WireFormat wire_;
  const Draws shared_;
  std::vector<Draws> draws_;
  std::vector<float> results_;  // of a block
  std::vector<FloatExpectation<Float32>> expectations_;
  std::vector<float> block_;  // small integers: what is right; random numbers: those that are within what they may be
  double unit_ = 0;           // of block_
  double reach_ = 0;          // no sum or product of the block is larger
};

template <typename Format>
void FillAs(const TestData& test, uint32_t rank, std::byte* data, uint64_t element_count) {
  using Stored = typename Format::Stored;
  const Draws draws(test, rank);
  const Draws shared(test, Draws::kNoRank);
  for (uint64_t i = 0; i < element_count; ++i) {
    const Stored stored = Contribution<Format>(test, draws.At(i), rank == ChosenRank(test, shared, i));
    std::memcpy(data + i * sizeof(Stored), &stored, sizeof(Stored));
  }
}

}  // namespace

void FillContribution(const TestData& test, uint32_t rank, std::byte* data, uint64_t element_count) {
  WithNumberFormat(test.codec.tensor_type(),
                   [&]<typename Format>(Format) { FillAs<Format>(test, rank, data, element_count); });
}

CheckOutcome CheckResult(const TestData& test, const std::byte* data, uint64_t element_count) {
  using Float32 = NumberFormat<DataType::kFloat32>;
  switch (test.codec.format()) {
    case WireFormat::kAsIs:
      break;
    case WireFormat::kFloat16:
      return CheckAs<Float32, NumberFormat<DataType::kFloat16>>(test, data, element_count);
    case WireFormat::kBfloat16:
      return CheckAs<Float32, NumberFormat<DataType::kBfloat16>>(test, data, element_count);
    case WireFormat::kInt8:
    case WireFormat::kFloat8:
      return BlockCheck(test).Check(data, element_count);
  }
  return WithNumberFormat(test.codec.tensor_type(),
                          [&]<typename Format>(Format) { return CheckAs<Format, Format>(test, data, element_count); });
}

uint64_t DigestBits(uint64_t digest, const std::byte* data, uint64_t byte_count) {
  digest = StableHash({digest, byte_count});
  for (uint64_t at = 0; at < byte_count; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, data + at, std::min<uint64_t>(sizeof(word), byte_count - at));
    digest = Mix(digest ^ word) + 0x9e3779b97f4a7c15u;
  }
  return digest;
}

}  // namespace shoal
