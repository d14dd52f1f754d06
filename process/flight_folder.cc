#include "process/flight_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "process/clock.h"
#include "process/start_thread.h"
#include "process/write_all.h"

namespace shoal {
namespace {

constexpr uint64_t kHourNs = 3600 * uint64_t{1'000'000'000};

absl::Status CheckFolder(const std::string& folder) {
  struct stat found = {};
  const bool is_there = stat(folder.c_str(), &found) == 0;
  const char* const why = !is_there                                  ? std::strerror(errno)
                          : !S_ISDIR(found.st_mode)                  ? "it is not a folder"
                          : access(folder.c_str(), W_OK | X_OK) != 0 ? std::strerror(errno)
                                                                     : nullptr;
  if (why == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("flight records can't be written to ", folder, ": ", why,
                                                 "; name a folder that this process may write to"));
}

// Follows no link and replaces nothing: the folder may be one that others write to.
absl::Status WriteNewFile(const std::string& path, const std::string& text) {
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int error = WriteAndClose(open(path.c_str(), flags, 0644), text);
  return error == 0 ? absl::OkStatus() : absl::UnavailableError(std::strerror(error));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FlightFolder>> FlightFolder::Start(const std::string& folder,
                                                                  std::function<void(std::string sentence)> report) {
  if (absl::Status status = CheckFolder(folder); !status.ok()) return status;
  std::unique_ptr<FlightFolder> made(new FlightFolder(folder, std::move(report)));
  absl::StatusOr<std::thread> thread = StartThread("shoal-flight", [raw = made.get()] { raw->Run(); });
  if (!thread.ok()) return thread.status();
  made->thread_ = *std::move(thread);
  return made;
}

FlightFolder::~FlightFolder() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool FlightFolder::HasRoom() {
  const std::lock_guard lock(mutex_);
  return HasRoomLocked();
}

bool FlightFolder::HasRoomLocked() {
  const uint64_t now_ns = MonotonicNs();
  if (hour_began_ns_ == 0 || now_ns - hour_began_ns_ >= kHourNs) {
    hour_began_ns_ = now_ns;
    saved_in_hour_ = 0;
  }
  return saved_in_hour_ < kMostFilesAnHour;
}

void FlightFolder::Save(const std::string& name, std::string text) {
  std::string safe = name;
  for (char& c : safe) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.') c = '-';
  }
  const std::lock_guard lock(mutex_);
  if (!HasRoomLocked()) return;
  ++saved_in_hour_;
  // In containers the number of a process comes again after each start.
  const std::string path =
      absl::StrCat(folder_, "/", safe, "-", getpid(), "-", ReadNow().unix_ms, "-", ++saved_, ".txt");
  files_.push_back({path, std::move(text)});
  changed_.notify_all();
}

void FlightFolder::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !files_.empty(); });
    if (files_.empty()) return;
    const File file = std::move(files_.front());
    files_.pop_front();
    lock.unlock();
    const absl::Status written = WriteNewFile(file.path, file.text);
    report_(written.ok() ? absl::StrCat("what happened before is in ", file.path)
                         : absl::StrCat("what happened before could not be written to ", file.path, ": ",
                                        std::string(written.message())));
    lock.lock();
  }
}

}  // namespace shoal
