// Virtual time for a whole cluster in one thread: an event heap, a random generator that is the same everywhere, a
// trace.
//
// Everything that happens in a simulation is an event of the world; two worlds with the same seed do the same, bit for
// bit, on every compiler (the trace digest proves it). One thread. Nothing here reads a clock.
#ifndef SHOAL_SIM_WORLD_H_
#define SHOAL_SIM_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/now.h"

namespace shoal::sim {

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): specified, so unlike <random>'s distributions equal everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next();
  // Uniform in [0, bound); bound > 0.
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  // Uniform in [low, high].
  uint64_t Between(uint64_t low, uint64_t high) { return low + Below(high - low + 1); }
  bool Chance(uint32_t per_million) { return Below(1'000'000) < per_million; }

 private:
  uint64_t state_;
};

// A quick digest for comparing bytes.
uint64_t DigestOf(std::span<const std::byte> bytes);

class World {
 public:
  explicit World(uint64_t seed);

  uint64_t now_ns() const { return now_ns_; }
  Random& random() { return random_; }

  // Runs `what` at a virtual time, not before now. Events of one time run in the order in which they were asked for.
  void At(uint64_t time_ns, std::function<void()> what);
  void After(uint64_t delay_ns, std::function<void()> what) { At(now_ns_ + delay_ns, std::move(what)); }

  // Runs the next event; false if there is none, or if it would come after `until_ns` (time moves there then).
  bool RunOne(uint64_t until_ns);
  void RunUntil(uint64_t until_ns);

  // Adds to the digest.
  void Trace(std::initializer_list<uint64_t> words);
  // Adds a line to the text that a failure prints; costs nothing while no text is kept.
  template <typename... Pieces>
  void TraceText(const Pieces&... pieces) {
    if (text_limit_ > 0) AddLine(absl::StrCat(pieces...));
  }
  uint64_t digest() const { return digest_; }
  void KeepText(size_t lines) { text_limit_ = lines; }
  const std::vector<std::string>& text() const { return text_; }
  uint64_t events_run() const { return events_run_; }

 private:
  struct Event {
    uint64_t time_ns;
    uint64_t sequence;
    std::function<void()> what;
  };
  // For a heap with the next event on top.
  static bool ComesLater(const Event& a, const Event& b) {
    return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.sequence > b.sequence;
  }

  void AddLine(const std::string& line);

  Random random_;
  uint64_t now_ns_ = kNsPerS;  // so that 0 is free to mean "never"
  uint64_t sequence_ = 0;
  uint64_t events_run_ = 0;
  uint64_t digest_;
  std::vector<Event> events_;  // a heap
  size_t text_limit_ = 0;
  std::vector<std::string> text_;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_WORLD_H_
