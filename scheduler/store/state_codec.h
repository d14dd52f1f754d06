// PersistedState as bytes for the store and back (proto/shoal/v1/state.proto). Pure; any thread.
#ifndef SHOAL_SCHEDULER_STORE_STATE_CODEC_H_
#define SHOAL_SCHEDULER_STORE_STATE_CODEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

std::string EncodeState(const PersistedState& state);

// DataLoss says what is wrong with the bytes: not a state, or a field out of range.
absl::StatusOr<PersistedState> DecodeState(const std::string& bytes);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STORE_STATE_CODEC_H_
