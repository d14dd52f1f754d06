// Where the ranks of a communicator meet: memory that they share, in one process or in several.
//
// Each rank has a place for one piece of a collective. A round: every rank waits until all have read the piece before,
// writes its own, waits until all have written, reads what it needs, and says so.
//
// Threads: one at a time for each object, and Await's `is_over` may look at what any thread changes.
#ifndef SHOAL_TESTS_SIMULATED_NCCL_MEETING_H_
#define SHOAL_TESTS_SIMULATED_NCCL_MEETING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace shoal::simulated_nccl {

// Ends the process with a message: a program has broken a rule of NCCL's.
[[noreturn]] void End(const std::string& what);

// A while, drawn from SIMULATED_CUDA_SEED. Any thread.
void BeLate();

// What a rank calls; all ranks of a communicator have to call the same.
struct Call {
  uint64_t number = 0;  // in the order of the communicator's calls
  uint64_t group = 0;   // likewise of its groups of calls
  uint32_t function = 0;
  int32_t type = 0;
  int32_t op = 0;
  int32_t root = 0;
  uint64_t count = 0;
  uint64_t scalar = 0;  // bits, of an operation that multiplies

  friend bool operator==(const Call&, const Call&) = default;
};

std::string Describe(const Call& call);

class Meeting {
 public:
  static constexpr uint32_t kMostRanks = 16;
  static constexpr size_t kPieceBytes = size_t{64} << 10;

  // Ends the process where two ranks take one place, or disagree about their number.
  Meeting(const std::string& name, uint32_t rank, uint32_t size);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  // Until all ranks are there. False, here and below: `is_over` said so.
  bool AwaitAll(const std::function<bool()>& is_over);
  // Ends the process if another rank does not make the same call.
  bool Round(const Call& call, const void* piece, size_t bytes, const std::function<bool()>& is_over);
  // What a rank has written in the round that is under way; the round ends with Read.
  const std::byte* PieceOf(uint32_t rank) const;
  void Read();

 private:
  struct Shared;

  void Unlink();

  const std::string name_;
  const uint32_t rank_;
  const uint32_t size_;
  Shared* const shared_;
  uint64_t round_ = 0;
};

}  // namespace shoal::simulated_nccl

#endif  // SHOAL_TESTS_SIMULATED_NCCL_MEETING_H_
