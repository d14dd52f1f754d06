#include "sim/world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/hash.h"

namespace shoal::sim {

uint64_t Random::Next() {
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

World::World(uint64_t seed) : random_(seed), digest_(StableHash({seed})) {}

void World::At(uint64_t time_ns, std::function<void()> what) {
  events_.push({std::max(time_ns, now_ns_), sequence_++, std::move(what)});
}

bool World::RunOne(uint64_t until_ns) {
  if (events_.empty() || events_.top().time_ns > until_ns) {
    now_ns_ = std::max(now_ns_, until_ns);
    return false;
  }
  Event event = events_.top();
  events_.pop();
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

void World::TraceText(const std::string& text) {
  for (char c : text) digest_ = StableHash({digest_, static_cast<unsigned char>(c)});
  if (text_limit_ == 0) return;
  if (text_.size() >= text_limit_) text_.erase(text_.begin());
  text_.push_back(absl::StrCat(now_ns_ / 1000, " us  ", text));
}

}  // namespace shoal::sim
