// Reading from a descriptor until its end. Any thread; may block.
#ifndef SHOAL_PROCESS_READ_ALL_H_
#define SHOAL_PROCESS_READ_ALL_H_

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>

namespace shoal {

// 0, or the error's number; EFBIG: there are more than `most` bytes, and `bytes` has some of them.
inline int ReadAll(int descriptor, size_t most, std::string* bytes) {
  char buffer[65536];
  while (bytes->size() <= most) {
    const ssize_t count = read(descriptor, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return 0;
    bytes->append(buffer, static_cast<size_t>(count));
  }
  return EFBIG;
}

}  // namespace shoal

#endif  // SHOAL_PROCESS_READ_ALL_H_
