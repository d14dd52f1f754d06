#include "process/flight_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

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

std::string OwnFolder() {
  const char* const temporary = std::getenv("TMPDIR");
  const bool is_named = temporary != nullptr && *temporary != '\0';
  return absl::StrCat(is_named ? temporary : "/tmp", "/shoal-flights-", geteuid());
}

// Everybody may write to the temporary directory: what somebody else has put there under this name is not used.
absl::Status MakeOwnFolder(const std::string& folder) {
  const int error = mkdir(folder.c_str(), 0700) == 0 ? 0 : errno;
  struct stat found = {};
  const bool is_there = lstat(folder.c_str(), &found) == 0;
  const char* const why = !is_there                                    ? std::strerror(error == 0 ? errno : error)
                          : S_ISLNK(found.st_mode)                     ? "it is a symbolic link"
                          : !S_ISDIR(found.st_mode)                    ? "it is not a folder"
                          : found.st_uid != geteuid()                  ? "it belongs to somebody else"
                          : (found.st_mode & (S_IWGRP | S_IWOTH)) != 0 ? "others may write to it"
                          : access(folder.c_str(), W_OK | X_OK) != 0   ? std::strerror(errno)
                                                                       : nullptr;
  return why == nullptr ? absl::OkStatus() : absl::UnavailableError(why);
}

// Other processes of the user may do the same at this moment.
void RemoveOldest(const std::string& folder, size_t most_files) {
  namespace fs = std::filesystem;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end; each.increment(error)) {
    const fs::path& path = each->path();
    if (!path.filename().string().starts_with("shoal-") || path.extension() != ".txt") continue;
    std::error_code gone;
    const fs::file_time_type written = fs::last_write_time(path, gone);
    if (!gone) files.emplace_back(written, path);
  }
  if (files.size() <= most_files) return;
  std::sort(files.begin(), files.end());
  for (size_t i = 0; i < files.size() - most_files; ++i) fs::remove(files[i].second, error);
}

// Follows no link and replaces nothing: the folder may be one that others write to.
absl::Status WriteNewFile(const std::string& path, const std::string& text) {
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int error = WriteAndClose(open(path.c_str(), flags, 0644), text);
  if (error != 0 && error != EEXIST) unlink(path.c_str());  // half a record is none
  return error == 0 ? absl::OkStatus() : absl::UnavailableError(std::strerror(error));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FlightFolder>> FlightFolder::Start(const std::string& choice, Send send,
                                                                  std::function<void(std::string sentence)> report) {
  if (choice.empty() || choice == kNoFlightFolder) return nullptr;
  const bool is_own = choice == kOwnFlightFolder;
  if (!is_own) {
    if (absl::Status status = CheckFolder(choice); !status.ok()) return status;
  }
  std::unique_ptr<FlightFolder> made(
      new FlightFolder(is_own ? OwnFolder() : choice, is_own, std::move(send), std::move(report)));
  absl::StatusOr<std::thread> thread = StartThread("shoal-flight", [raw = made.get()] { raw->Run(); });
  if (!thread.ok()) return thread.status();
  made->thread_ = *std::move(thread);
  return made;
}

FlightFolder::~FlightFolder() {
  {
    const MutexLock lock(mutex_);
    end_by_ns_ = DeadlineIn(kSendPatienceMs);
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool FlightFolder::HasRoom() {
  const MutexLock lock(mutex_);
  return HasRoomLocked();
}

bool FlightFolder::HasRoomLocked() {
  const uint64_t now_ns = MonotonicNs();
  if (hour_began_ns_ == 0 || now_ns - hour_began_ns_ >= kHourNs) {
    hour_began_ns_ = now_ns;
    saved_in_hour_ = 0;
    gave_up_ = false;
  }
  return saved_in_hour_ < kMostFilesAnHour;
}

void FlightFolder::Save(Record record) {
  std::string safe = record.name;
  for (char& c : safe) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.') c = '-';
  }
  const MutexLock lock(mutex_);
  if (!HasRoomLocked()) return;
  ++saved_in_hour_;
  // In containers the number of a process comes again after each start.
  const std::string path =
      absl::StrCat(folder_, "/", safe, "-", getpid(), "-", ReadNow().unix_ms, "-", ++saved_, ".txt");
  files_.push_back({path, std::move(record)});
  changed_.notify_all();
}

void FlightFolder::Run() {
  MutexLock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this]() SHOAL_REQUIRES(mutex_) { return end_by_ns_ != kNoDeadline || !files_.empty(); });
    if (files_.empty()) return;
    const File file = std::move(files_.front());
    files_.pop_front();
    lock.unlock();
    WriteAndSend(file);
    lock.lock();
  }
}

void FlightFolder::WriteAndSend(const File& file) {
  const std::optional<absl::Status> written = Write(file);
  const std::string& failure = file.record.failure;
  if (written.has_value() && written->ok()) {
    report_(absl::StrCat(failure, "; what happened before is in ", file.path));
    SendInTime(file.record);
    return;
  }
  const std::string sent = SendInTime(file.record);
  if (!written.has_value() && sent.empty()) return;
  report_(absl::StrCat(failure, "; what happened before ",
                       written.has_value() ? std::string(written->message()) : "is not written",
                       sent.empty() ? "" : "; ", sent));
}

std::string FlightFolder::SendInTime(const Record& record) {
  if (!record.is_sent) return "";
  uint64_t deadline_ns = DeadlineIn(kSendPatienceMs);
  {
    const MutexLock lock(mutex_);
    deadline_ns = std::min(deadline_ns, end_by_ns_);
  }
  return send_(record, deadline_ns);
}

std::optional<absl::Status> FlightFolder::Write(const File& file) {
  {
    const MutexLock lock(mutex_);
    if (gave_up_) return std::nullopt;
  }
  // Each time: what cleans the temporary directory removes folders as well.
  if (const absl::Status made = is_own_ ? MakeOwnFolder(folder_) : absl::OkStatus(); !made.ok()) {
    const MutexLock lock(mutex_);
    gave_up_ = true;
    return absl::UnavailableError(
        absl::StrCat("is not written, because ", folder_, " can't be had: ", std::string(made.message()),
                     "; name a folder that this process may write to, or \"", kNoFlightFolder, "\""));
  }
  if (const absl::Status written = WriteNewFile(file.path, file.record.text); !written.ok()) {
    return absl::UnavailableError(
        absl::StrCat("could not be written to ", file.path, ": ", std::string(written.message())));
  }
  if (is_own_) RemoveOldest(folder_, kMostFilesOfOwn);
  return absl::OkStatus();
}

}  // namespace shoal
