#include "tests/simulated_nccl/meeting.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/simulated_cuda/random_delay.h"

namespace shoal::simulated_nccl {
namespace {

constexpr int kMostLateUs = 300;

bool Await(const std::function<bool()>& condition, const std::function<bool()>& is_over) {
  // What is over takes no part any more, even where it could: what was to come before it has not happened.
  while (!is_over()) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return false;
}

}  // namespace

void End(const std::string& what) {
  std::fprintf(stderr, "simulated NCCL: %s\n", what.c_str());
  std::abort();
}

void BeLate() { simulated_cuda::BeLate(kMostLateUs); }

std::string Describe(const Call& call) {
  static constexpr const char* kFunctions[] = {"ncclReduceScatter", "ncclAllGather", "ncclReduce", "ncclBroadcast"};
  return std::string(kFunctions[call.function]) + "(count " + std::to_string(call.count) + ", type " +
         std::to_string(call.type) + ", op " + std::to_string(call.op) + ", root " + std::to_string(call.root) +
         ", scalar " + std::to_string(call.scalar) + ") as call " + std::to_string(call.number) + " in group " +
         std::to_string(call.group);
}

struct Meeting::Shared {
  struct alignas(64) OfRank {
    std::atomic<uint32_t> is_taken;
    std::atomic<uint64_t> written;  // rounds
    std::atomic<uint64_t> read;     // likewise
    Call call;
    alignas(64) std::byte piece[kPieceBytes];
  };

  std::atomic<uint32_t> size;
  std::atomic<uint32_t> mapped;
  std::atomic<uint32_t> there;
  OfRank ranks[kMostRanks];
};

Meeting::Meeting(const std::string& name, uint32_t rank, uint32_t size)
    : name_(name), rank_(rank), size_(size), shared_([&name] {
        const int file = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
        // All zero at first; to set the same length again changes nothing.
        if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) End("no shared memory " + name);
        void* const start = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (start == MAP_FAILED) End("no shared memory " + name);
        return static_cast<Shared*>(start);
      }()) {
  ++shared_->mapped;
  uint32_t others = 0;
  if (!shared_->size.compare_exchange_strong(others, size) && others != size) {
    End("one rank says that they are " + std::to_string(size) + ", another " + std::to_string(others));
  }
  if (shared_->ranks[rank].is_taken.exchange(1) != 0) End("two ranks have the number " + std::to_string(rank));
  // Nobody needs its name any more: killed processes leave nothing behind.
  if (++shared_->there == size) Unlink();
}

Meeting::~Meeting() {
  // One that never became complete; a rank that comes later makes another, and waits there.
  if (--shared_->mapped == 0 && shared_->there < size_) Unlink();
  munmap(shared_, sizeof(Shared));
}

void Meeting::Unlink() { shm_unlink(name_.c_str()); }

bool Meeting::AwaitAll(const std::function<bool()>& is_over) {
  return Await([this] { return shared_->there == size_; }, is_over);
}

bool Meeting::Round(const Call& call, const void* piece, size_t bytes, const std::function<bool()>& is_over) {
  const auto all = [this](std::atomic<uint64_t> Shared::OfRank::*counter, uint64_t rounds) {
    for (uint32_t rank = 0; rank < size_; ++rank) {
      if (shared_->ranks[rank].*counter < rounds) return false;
    }
    return true;
  };
  if (!Await([&] { return all(&Shared::OfRank::read, round_); }, is_over)) return false;
  Shared::OfRank& own = shared_->ranks[rank_];
  own.call = call;
  if (bytes > 0) std::memcpy(own.piece, piece, bytes);
  own.written = ++round_;
  if (!Await([&] { return all(&Shared::OfRank::written, round_); }, is_over)) return false;
  for (uint32_t rank = 0; rank < size_; ++rank) {
    const Call& others = shared_->ranks[rank].call;
    if (others == call) continue;
    End("ranks of a communicator differ: rank " + std::to_string(rank_) + " calls " + Describe(call) + ", rank " +
        std::to_string(rank) + " " + Describe(others));
  }
  return true;
}

const std::byte* Meeting::PieceOf(uint32_t rank) const { return shared_->ranks[rank].piece; }

void Meeting::Read() { shared_->ranks[rank_].read = round_; }

}  // namespace shoal::simulated_nccl
