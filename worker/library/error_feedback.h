// Keeps what the wire's rounding takes from a group's contributions, and adds it to the next ones (error feedback:
// Seide et al., 1-bit stochastic gradient descent, 2014; Karimireddy et al., Error feedback fixes SignSGD, 2019).
//
// An op's tensor becomes what its bytes on the wire will stand for, before it is submitted. Codecs are idempotent
// (core/wire_codec.h), so the machine sends those bytes however often it sends a chunk. A tensor is known by its place,
// its address and its number of elements, as the gradients of a training step are at the same place each time.
//
// Thread: any; two ops of one tensor are not under way at the same time. Ownership: of its CallerGroup.
#ifndef SHOAL_WORKER_LIBRARY_ERROR_FEEDBACK_H_
#define SHOAL_WORKER_LIBRARY_ERROR_FEEDBACK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/wire_codec.h"
#include "process/mutex.h"

namespace shoal {

class ErrorFeedback {
 public:
  // Of more places, the one that was used least recently is forgotten.
  static constexpr size_t kMaxPlaces = 1024;

  explicit ErrorFeedback(WireFormat wire) : codec_(DataType::kFloat32, wire) {}

  // Adds to the tensor what was kept for it, and rounds it as the wire does. Where a part of it is not finite, nothing
  // is kept of that part. ResourceExhausted: there is no memory for what is kept; the tensor is unchanged.
  absl::Status Apply(float* tensor, uint64_t element_count);

  // What is kept for a tensor, by the order in which tensors came first. `count` is the room for `values` at first, and
  // then how many there are; `values` nullptr: tells the number alone. NotFound: there are no more. InvalidArgument:
  // the room is not enough.
  absl::Status Read(size_t index, float* values, uint64_t* count) const;
  // For the first tensor with as many elements that has no place yet. ResourceExhausted: kMaxPlaces have one.
  absl::Status Add(std::vector<float> values);

 private:
  struct Place {
    explicit Place(std::vector<float> kept) : element_count(kept.size()), values(std::move(kept)) {}

    const uint64_t element_count;
    const float* tensor = nullptr;  // nullptr: none yet
    uint64_t used = 0;              // the higher, the later
    Mutex mutex;
    std::vector<float> values SHOAL_GUARDED_BY(mutex);
  };

  // nullptr: there is no memory.
  std::shared_ptr<Place> PlaceOf(const float* tensor, uint64_t element_count);
  std::vector<std::shared_ptr<Place>>::iterator Find(const float* tensor, uint64_t element_count)
      SHOAL_REQUIRES(mutex_);

  const WireCodec codec_;
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<Place>> places_ SHOAL_GUARDED_BY(mutex_);  // in the order of their first ops
  uint64_t uses_ SHOAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_ERROR_FEEDBACK_H_
