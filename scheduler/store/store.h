// The port through which the scheduler keeps its state: one value, replaced as a whole.
//
// Threads: all functions from one thread, but `wake` is called from any. Nothing but Load blocks.
#ifndef SHOAL_SCHEDULER_STORE_STORE_H_
#define SHOAL_SCHEDULER_STORE_STORE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shoal::scheduler {

class Store {
 public:
  struct Saved {
    uint64_t number = 0;
    absl::Status status;  // not ok: the former state is kept; save again later; the text names file and cause
  };

  virtual ~Store() = default;

  // The state that was saved last; nullopt if none ever was. DataLoss: it is damaged, or not the state of a scheduler;
  // the text says where it is and what to do. Blocks; call it once, before the first StartSave.
  virtual absl::StatusOr<std::optional<std::string>> Load() = 0;

  // Begins to replace the state, all or nothing, even if the node fails meanwhile. One at a time: start the next save
  // after PollSaved has returned this one. `number` comes back with the outcome.
  virtual void StartSave(uint64_t number, std::string state) = 0;

  // The outcome of the save under way, nullopt while there is none.
  virtual std::optional<Saved> PollSaved() = 0;

  // `wake` is called when PollSaved may have something. Set it before the first StartSave.
  virtual void SetWake(std::function<void()> wake) = 0;

  // Where the state is, in words: "memory", "file /var/lib/shoal/state".
  virtual std::string Describe() const = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STORE_STORE_H_
