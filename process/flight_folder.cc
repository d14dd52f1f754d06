#include "process/flight_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "process/start_thread.h"

namespace shoal {
namespace {

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

void FlightFolder::Save(const std::string& name, std::string text) {
  std::string safe = name;
  for (char& c : safe) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.') c = '-';
  }
  const std::lock_guard lock(mutex_);
  if (saved_ == kMostFiles) return;
  ++saved_;
  files_.push_back({absl::StrCat(folder_, "/", safe, "-", getpid(), "-", saved_, ".txt"), std::move(text)});
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
    std::ofstream out(file.path, std::ios::trunc);
    out << file.text;
    out.close();
    report_(out.good() ? absl::StrCat("what happened before is in ", file.path)
                       : absl::StrCat("what happened before could not be written to ", file.path,
                                      "; see whether the disk is full"));
    lock.lock();
  }
}

}  // namespace shoal
