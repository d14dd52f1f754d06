// Writing to a descriptor until all is written. Any thread; may block.
#ifndef SHOAL_PROCESS_WRITE_ALL_H_
#define SHOAL_PROCESS_WRITE_ALL_H_

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>

namespace shoal {

// 0, or the error's number.
inline int WriteAll(int descriptor, const std::string& bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count = write(descriptor, bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    written += static_cast<size_t>(count);
  }
  return 0;
}

// Of what open() has returned, which it closes.
inline int WriteAndClose(int descriptor, const std::string& bytes) {
  if (descriptor < 0) return errno;
  const int error = WriteAll(descriptor, bytes);
  return close(descriptor) != 0 && error == 0 ? errno : error;
}

}  // namespace shoal

#endif  // SHOAL_PROCESS_WRITE_ALL_H_
