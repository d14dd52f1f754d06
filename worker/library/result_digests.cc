#include "worker/library/result_digests.h"

#include <isa-l/crc64.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace shoal {

void ResultDigests::Start() {
  const MutexLock lock(mutex_);
  lines_.clear();
  dropped_ = 0;
  on_devices_ = 0;
  is_on_.store(true, std::memory_order_relaxed);
}

void ResultDigests::Add(const GroupInfo& group, const HostTensor& tensor) {
  if (!is_on()) return;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(tensor.data);
  const uint64_t digest = crc64_ecma_refl(0, bytes, tensor.element_count * DataTypeSize(tensor.dtype));
  // The name comes last, as it may have anything in it but the end of a line.
  std::string name = group.name;
  std::replace_if(
      name.begin(), name.end(), [](char each) { return each == '\n' || each == '\r'; }, '?');
  std::string line =
      absl::StrFormat("group=%d ranks=%d op=%d elements=%d dtype=%s crc64=%016x name=%s\n", group.whole_group.value(),
                      group.size(), tensor.op_number, tensor.element_count, DataTypeName(tensor.dtype), digest, name);
  const MutexLock lock(mutex_);
  if (!is_on()) return;
  lines_.push_back(std::move(line));
  if (lines_.size() <= kMost) return;
  lines_.pop_front();
  ++dropped_;
}

void ResultDigests::CountOnDevice() {
  if (!is_on()) return;
  const MutexLock lock(mutex_);
  if (is_on()) ++on_devices_;
}

std::string ResultDigests::Stop(size_t most_bytes) {
  std::deque<std::string> lines;
  uint64_t dropped = 0;
  std::string on_devices;
  {
    const MutexLock lock(mutex_);
    is_on_.store(false, std::memory_order_relaxed);
    lines.swap(lines_);
    dropped = dropped_;
    if (on_devices_ > 0) on_devices = absl::StrFormat("on_devices=%d\n", on_devices_);
  }
  const auto head = [&](uint64_t left_out) { return absl::StrFormat("left_out=%d\n%s", left_out, on_devices); };
  size_t bytes = head(dropped + lines.size()).size();
  auto first = lines.end();
  while (first != lines.begin() && bytes + std::prev(first)->size() <= most_bytes) bytes += (--first)->size();
  std::string text = head(dropped + static_cast<uint64_t>(first - lines.begin()));
  text.reserve(bytes);
  for (; first != lines.end(); ++first) text += *first;
  return text;
}

}  // namespace shoal
