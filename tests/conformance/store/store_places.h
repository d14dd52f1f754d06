// The places where a scheduler's state is kept, as one scheduler after the other finds them, and what can befall them.
#ifndef SHOAL_TESTS_CONFORMANCE_STORE_STORE_PLACES_H_
#define SHOAL_TESTS_CONFORMANCE_STORE_STORE_PLACES_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/store/store.h"

namespace shoal::scheduler {

class StorePlace {
 public:
  virtual ~StorePlace() = default;
  // The store of a scheduler that starts (and leads) now; that of the one before is gone.
  virtual std::unique_ptr<Store> Open() = 0;
};

// One that outlives the scheduler, and where a save can fail.
class LastingPlace : public StorePlace {
 public:
  virtual void MakeSavesFail() = 0;
  virtual void LetSavesSucceed() = 0;
  // What every error must name.
  virtual std::string Name() = 0;

  struct Damage {
    std::string what;
    std::function<void()> inflict;
  };
  // What can befall the state that lies there, while no store is open. None where nothing but a save can change it.
  virtual std::vector<Damage> Damages() = 0;

  // A process that saves WholeState(first_number) and so on as fast as it can, until it is killed at any moment. No
  // other store is open.
  virtual void StartSaver(uint64_t first_number) = 0;
  virtual void KillSaver() = 0;
  // The state as one sees it who is not the saver. Some time passes.
  virtual absl::StatusOr<std::optional<std::string>> LoadBeside() = 0;
};

std::unique_ptr<StorePlace> MakeMemoryPlace();
// `folder` is empty and outlives the place.
std::unique_ptr<LastingPlace> MakeSimPlace();
std::unique_ptr<LastingPlace> MakeFilePlace(const std::string& folder);
std::unique_ptr<LastingPlace> MakeEtcdPlace(const std::string& folder);

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_CONFORMANCE_STORE_STORE_PLACES_H_
