// A store in one file, replaced atomically: written beside it, synced, renamed over it, its folder synced.
//
// The file: 8 bytes "SHOALST1", the length of the state (8 bytes, little-endian), SHA-256 of the state (32 bytes), the
// state. A lock on PATH.lock keeps a second scheduler away for as long as the object lives. A thread of its own does
// the writing.
#ifndef SHOAL_SCHEDULER_FILE_STORE_H_
#define SHOAL_SCHEDULER_FILE_STORE_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "scheduler/store.h"

namespace shoal::scheduler {

class FileStore : public Store {
 public:
  // NotFound, PermissionDenied: the folder can't be used. FailedPrecondition: another scheduler holds the file.
  static absl::StatusOr<std::unique_ptr<FileStore>> Open(const std::string& path);

  // Waits for the save under way.
  ~FileStore() override;

  absl::StatusOr<std::optional<std::string>> Load() override;
  void StartSave(uint64_t number, std::string state) override;
  std::optional<Saved> PollSaved() override;
  void SetWake(std::function<void()> wake) override;
  std::string Describe() const override;

 private:
  struct Order {
    uint64_t number = 0;
    std::string state;
  };

  FileStore(const std::string& path, int lock_descriptor);
  void WriteOrders();
  absl::Status Write(const std::string& state) const;

  const std::string path_;
  const int lock_descriptor_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Order> order_;
  std::optional<Saved> saved_;
  std::function<void()> wake_;
  bool closing_ = false;
  std::thread writer_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_FILE_STORE_H_
