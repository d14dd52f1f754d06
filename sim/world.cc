#include "sim/world.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/hash.h"

namespace shoal::sim {

uint64_t Random::Next() {
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t DigestOf(std::span<const std::byte> bytes) {
  uint64_t digest = bytes.size();
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
    digest ^= digest >> 29;
  }
  for (; at < bytes.size(); ++at) digest = (digest ^ static_cast<uint64_t>(bytes[at])) * 0x9e3779b97f4a7c15u;
  return digest;
}

World::World(uint64_t seed) : random_(seed), digest_(StableHash({seed})) {}

void World::At(uint64_t time_ns, std::function<void()> what) {
  events_.push_back({std::max(time_ns, now_ns_), sequence_++, std::move(what)});
  std::push_heap(events_.begin(), events_.end(), ComesLater);
}

bool World::RunOne(uint64_t until_ns) {
  if (events_.empty() || events_.front().time_ns > until_ns) {
    now_ns_ = std::max(now_ns_, until_ns);
    return false;
  }
  std::pop_heap(events_.begin(), events_.end(), ComesLater);
  const Event event = std::move(events_.back());
  events_.pop_back();
  now_ns_ = event.time_ns;
  ++events_run_;
  event.what();
  return true;
}

void World::RunUntil(uint64_t until_ns) {
  while (RunOne(until_ns)) {
  }
}

void World::Trace(std::initializer_list<uint64_t> words) {
  digest_ = StableHash({digest_, now_ns_, StableHash(words)});
}

void World::AddLine(const std::string& line) {
  if (text_.size() >= text_limit_) text_.erase(text_.begin());
  text_.push_back(absl::StrCat(now_ns_ / 1000, " us  ", line));
}

}  // namespace shoal::sim
