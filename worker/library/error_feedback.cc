#include "worker/library/error_feedback.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "reduce/convert.h"

namespace shoal {
namespace {

// What is worked on at a time stays in the nearest cache. Whole blocks of every codec.
constexpr size_t kPieceElements = 2048;
static_assert(kPieceElements % WireCodec::kMaxAlignmentElements == 0);

void ApplyToPiece(WireCodec codec, float* tensor, float* kept, size_t count) {
  float wanted[kPieceElements] = {};  // GCC can not know that `count` is not 0
  std::byte wire[kPieceElements * sizeof(float)];
  float non_finite = 0;  // NaN if one of them is not finite
  for (size_t i = 0; i < count; ++i) {
    wanted[i] = tensor[i] + kept[i];
    non_finite += wanted[i] - wanted[i];
  }
  Encode(codec, reinterpret_cast<const std::byte*>(wanted), wire, count);
  Decode(codec, wire, reinterpret_cast<std::byte*>(tensor), count);
  if (non_finite != 0) {
    std::fill_n(kept, count, 0.0f);
    return;
  }
  for (size_t i = 0; i < count; ++i) kept[i] = wanted[i] - tensor[i];
}

}  // namespace

absl::Status ErrorFeedback::Apply(float* tensor, uint64_t element_count) {
  if (element_count == 0) return absl::OkStatus();
  const std::shared_ptr<Place> place = PlaceOf(tensor, element_count);
  if (place == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("there is no memory for what rounding takes from ", element_count,
                                                     " elements (error_feedback); reduce without it"));
  }
  const MutexLock lock(place->mutex);
  for (uint64_t first = 0; first < element_count; first += kPieceElements) {
    ApplyToPiece(codec_, tensor + first, place->values.data() + first,
                 std::min<uint64_t>(kPieceElements, element_count - first));
  }
  return absl::OkStatus();
}

std::shared_ptr<ErrorFeedback::Place> ErrorFeedback::PlaceOf(const float* tensor, uint64_t element_count) {
  const MutexLock lock(mutex_);
  auto found = Find(tensor, element_count);
  if (found == places_.end()) found = Find(nullptr, element_count);
  if (found == places_.end()) {
    std::shared_ptr<Place> made;
    try {
      made = std::make_shared<Place>(std::vector<float>(element_count));
    } catch (const std::exception&) {  // bad_alloc, length_error
      return nullptr;
    }
    if (places_.size() >= kMaxPlaces) {
      places_.erase(std::ranges::min_element(places_, {}, [](const auto& each) { return each->used; }));
    }
    places_.push_back(std::move(made));
    found = std::prev(places_.end());
  }
  (*found)->tensor = tensor;
  (*found)->used = ++uses_;
  return *found;
}

std::vector<std::shared_ptr<ErrorFeedback::Place>>::iterator ErrorFeedback::Find(const float* tensor,
                                                                                 uint64_t element_count) {
  return std::ranges::find_if(
      places_, [&](const auto& each) { return each->tensor == tensor && each->element_count == element_count; });
}

absl::Status ErrorFeedback::Read(size_t index, float* values, uint64_t* count) const {
  std::shared_ptr<Place> place;
  {
    const MutexLock lock(mutex_);
    if (index >= places_.size()) {
      return absl::NotFoundError(absl::StrCat("something is kept for ", places_.size(), " tensors"));
    }
    place = places_[index];
  }
  if (const uint64_t room = std::exchange(*count, place->element_count); values != nullptr && room < *count) {
    return absl::InvalidArgumentError(absl::StrCat("there is room for ", room, " of ", *count, " values"));
  }
  const MutexLock lock(place->mutex);
  if (values != nullptr) std::ranges::copy(place->values, values);
  return absl::OkStatus();
}

absl::Status ErrorFeedback::Add(std::vector<float> values) {
  const MutexLock lock(mutex_);
  if (places_.size() >= kMaxPlaces) {
    return absl::ResourceExhaustedError(
        absl::StrCat("something is kept for ", kMaxPlaces, " tensors, which is the most"));
  }
  places_.push_back(std::make_shared<Place>(std::move(values)));
  return absl::OkStatus();
}

}  // namespace shoal
