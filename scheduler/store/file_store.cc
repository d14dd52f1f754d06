#include "scheduler/store/file_store.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "process/read_all.h"
#include "process/write_all.h"

namespace shoal::scheduler {
namespace {

constexpr char kMagic[] = "SHOALST1";
constexpr size_t kMagicBytes = 8;
constexpr size_t kLengthBytes = 8;
constexpr size_t kHeaderBytes = kMagicBytes + kLengthBytes + SHA256_DIGEST_LENGTH;
constexpr uint64_t kMaxStateBytes = 1ull << 30;

// Closes its descriptor; -1 for none.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

absl::Status SystemError(int error, const std::string& doing, const std::string& path) {
  const std::string text = absl::StrCat(doing, " ", path, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(absl::StrCat(text, "; create its folder first"));
  if (error == EACCES || error == EPERM || error == EROFS) {
    return absl::PermissionDeniedError(absl::StrCat(text, "; let the scheduler's user write to its folder"));
  }
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(text);
  return absl::UnavailableError(text);
}

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

absl::StatusOr<std::string> ReadState(int descriptor, const std::string& path) {
  std::string bytes;
  const int error = ReadAll(descriptor, kHeaderBytes + kMaxStateBytes, &bytes);
  if (error == 0) return bytes;
  if (error != EFBIG) return SystemError(error, "can't read", path);
  return absl::DataLossError(
      absl::StrCat("state file ", path, " is too large to be a state; check that it is the right file"));
}

std::string Digest(const char* data, size_t size) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(data), size, reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

std::string Header(const std::string& state) {
  std::string header(kMagic, kMagicBytes);
  for (size_t i = 0; i < kLengthBytes; ++i) {
    header.push_back(static_cast<char>((static_cast<uint64_t>(state.size()) >> (8 * i)) & 0xff));
  }
  return header + Digest(state.data(), state.size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileStore>> FileStore::Open(const std::string& path) {
  const std::string lock_path = absl::StrCat(path, ".lock");
  Descriptor lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock.get() < 0) return SystemError(errno, "can't open", lock_path);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return SystemError(errno, "can't lock", lock_path);
    return absl::AlreadyExistsError(absl::StrCat(
        "state file ", path, " is in use by another scheduler; stop that one, or give this one another --state-file"));
  }
  return std::unique_ptr<FileStore>(new FileStore(path, lock.release()));
}

FileStore::FileStore(const std::string& path, int lock_descriptor) : path_(path), lock_descriptor_(lock_descriptor) {
  thread_.emplace([this](const std::string& state) { return Write(state); });
}

FileStore::~FileStore() {
  thread_.reset();
  close(lock_descriptor_);
}

absl::StatusOr<std::optional<std::string>> FileStore::Load() {
  const Descriptor file(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 && errno == ENOENT) return std::nullopt;
  if (file.get() < 0) return SystemError(errno, "can't open", path_);
  const absl::StatusOr<std::string> bytes = ReadState(file.get(), path_);
  if (!bytes.ok()) return bytes.status();
  if (bytes->size() < kMagicBytes || bytes->compare(0, kMagicBytes, kMagic) != 0) {
    return absl::DataLossError(
        absl::StrCat("state file ", path_,
                     " was not written by this version of shoal-scheduler; give another file, or "
                     "move it away to start a new cluster"));
  }
  const std::string state = bytes->size() < kHeaderBytes ? "" : bytes->substr(kHeaderBytes);
  if (bytes->size() < kHeaderBytes || bytes->compare(0, kHeaderBytes, Header(state)) != 0) {
    return absl::DataLossError(absl::StrCat("state file ", path_, " is damaged (its ", bytes->size(),
                                            " bytes don't match its length or digest); restore a copy, or move it away "
                                            "to start a new cluster"));
  }
  return state;
}

std::string FileStore::Describe() const { return absl::StrCat("file ", path_); }

absl::Status FileStore::Write(const std::string& state) const {
  const std::string new_path = absl::StrCat(path_, ".new");
  {
    const Descriptor file(open(new_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (file.get() < 0) return SystemError(errno, "can't create", new_path);
    if (const int error = WriteAll(file.get(), Header(state) + state); error != 0) {
      return SystemError(error, "can't write", new_path);
    }
    if (fsync(file.get()) != 0) return SystemError(errno, "can't sync", new_path);
  }
  if (rename(new_path.c_str(), path_.c_str()) != 0) return SystemError(errno, "can't rename to", path_);
  const Descriptor folder(open(FolderOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || fsync(folder.get()) != 0) return SystemError(errno, "can't sync the folder of", path_);
  return absl::OkStatus();
}

}  // namespace shoal::scheduler
