// A store in one file, replaced atomically: written beside it, synced, renamed over it, its folder synced.
//
// The file: 8 bytes "SHOALST1", the length of the state (8 bytes, little-endian), SHA-256 of the state (32 bytes), the
// state. A lock on PATH.lock keeps a second scheduler away for as long as the object lives.
#ifndef SHOAL_SCHEDULER_STORE_FILE_STORE_H_
#define SHOAL_SCHEDULER_STORE_FILE_STORE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "scheduler/store/save_thread.h"
#include "scheduler/store/store.h"

namespace shoal::scheduler {

class FileStore : public Store {
 public:
  // NotFound, PermissionDenied: the folder can't be used. AlreadyExists: another scheduler holds the file.
  static absl::StatusOr<std::unique_ptr<FileStore>> Open(const std::string& path);

  ~FileStore() override;

  absl::StatusOr<std::optional<std::string>> Load() override;
  void StartSave(uint64_t number, std::string state) override { thread_->StartSave(number, std::move(state)); }
  std::optional<Saved> PollSaved() override { return thread_->PollSaved(); }
  void SetWake(std::function<void()> wake) override { thread_->SetWake(std::move(wake)); }
  std::string Describe() const override;

 private:
  FileStore(const std::string& path, int lock_descriptor);
  absl::Status Write(const std::string& state) const;

  const std::string path_;
  const int lock_descriptor_;
  std::optional<SaveThread> thread_;  // ends before the lock is given up
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STORE_FILE_STORE_H_
