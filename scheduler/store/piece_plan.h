// What a save changes of the pieces that lie in etcd. The state is cut by content (content_pieces.h), each piece has a
// number, and one after the other in the order of their numbers they are the state. Numbers leave room between them, so
// that a piece can be put between two others, which stay as they are.
//
// Pure; any thread.
#ifndef SHOAL_SCHEDULER_STORE_PIECE_PLAN_H_
#define SHOAL_SCHEDULER_STORE_PIECE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::scheduler {

// Of one transaction. etcd's own limits are 128 operations (--max-txn-ops) and 1.5 MiB (--max-request-bytes). Members
// that are slow to write one large request are late with others, the heartbeats of the cluster included.
inline constexpr size_t kMostOperations = 128;
inline constexpr size_t kMostPutBytes = size_t{512} << 10;

struct StatePiece {
  std::string_view bytes;
  std::string digest;  // Sha256Of: pieces with the same one are the same
};

// Of a piece that lies there.
struct KeptPiece {
  uint64_t number = 0;
  std::string digest;
};

struct PiecePlan {
  struct Put {
    uint64_t number = 0;  // a piece that has this number is replaced
    std::string_view bytes;
  };
  std::vector<Put> puts;
  std::vector<uint64_t> removed;  // numbers; none of them is put
  std::vector<KeptPiece> kept;    // what lies there afterwards, by number
};

// 32 bytes.
std::string Sha256Of(std::string_view bytes);

// They lie in `state`.
std::vector<StatePiece> CutState(std::string_view state);

// From `kept`, by number, to `wanted`: as many pieces as possible stay where they are. nullopt: that does not fit into
// one transaction, which puts the name of the state as well, or somewhere there is no room between two numbers.
std::optional<PiecePlan> PlanChange(const std::vector<KeptPiece>& kept, const std::vector<StatePiece>& wanted);

// From nothing, in any number of transactions.
PiecePlan PlanAnew(const std::vector<StatePiece>& wanted);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STORE_PIECE_PLAN_H_
