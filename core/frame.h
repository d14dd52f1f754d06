// The data plane's fixed binary frame: the only thing that workers and servers send each other.
//
// Every message starts with a 96-byte little-endian header (layout in docs/wire.md, golden bytes in
// tests/unit/core/frame_test.cc). Notes are header plus a short body, all control; kPush and kResult are followed by a
// payload of elements. Decoding never trusts its input: whatever the bytes, the answer is a value or a refusal.
// Pure functions on the caller's memory; any thread.
#ifndef SHOAL_CORE_FRAME_H_
#define SHOAL_CORE_FRAME_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/dtype.h"
#include "core/ids.h"
#include "core/wire_codec.h"

namespace shoal {

// Grows with every change that an older peer would misread. Peers of another version are refused with both numbers.
inline constexpr uint8_t kWireVersion = 4;
inline constexpr size_t kFrameHeaderBytes = 96;
inline constexpr size_t kMaxNoteBytes = 512;
inline constexpr size_t kMaxNoteBodyBytes = kMaxNoteBytes - kFrameHeaderBytes;
inline constexpr size_t kMaxReasonTextBytes = 320;
inline constexpr size_t kMaxMissingRanks = 8;

// clang-format off
#define SHOAL_FRAME_TYPES(X)                                                          \
  X(kHello, 1, "hello")            /* worker: open a group here; body: GroupToken */  \
  X(kWelcome, 2, "welcome")        /* server: group is open; body: Welcome */         \
  X(kRefuse, 3, "refuse")          /* server: no; reason + text */                    \
  X(kPush, 4, "push")              /* worker: contribution to a chunk */              \
  X(kResult, 5, "result")          /* server: sum of a chunk */                       \
  X(kCommit, 6, "commit")          /* either: commit watermark alone */               \
  X(kWaiting, 7, "waiting")        /* server: a chunk waits for ranks; body: list */  \
  X(kGroupFailed, 8, "group-failed")/* either: the group can't go on; text */         \
  X(kRankLost, 9, "rank-lost")     /* server: a rank of the group is gone; text */    \
  X(kLeaveGroup, 10, "leave-group")/* worker: done with the group */                  \
  X(kBye, 11, "bye")               /* either: orderly end of the connection */        \
  X(kProbe, 12, "probe")           /* worker: note or payload; server: its echo */    \
  X(kAsk, 13, "ask")               /* server: who has the result of this chunk? */

// Why a message was refused. Every reason is counted by name in the server's metrics.
#define SHOAL_REFUSALS(X)                                                                                  \
  X(kNone, 0, "none")                                                                                      \
  X(kMalformed, 1, "malformed")                      /* not a frame, or a field out of range */            \
  X(kOtherVersion, 2, "wire-version")                /* the peer speaks another version */                 \
  X(kBadToken, 3, "bad-token")                       /* signature, expiry or shape of the token */         \
  X(kUnknownGroup, 4, "unknown-group")               /* no hello for this group on this connection */      \
  X(kWrongRank, 5, "wrong-rank")                     /* the connection said hello as another rank */       \
  X(kRankTaken, 6, "rank-taken")                     /* another live connection holds this rank */         \
  X(kStaleEpoch, 7, "stale-epoch")                   /* the message is of another epoch */                 \
  X(kLayoutMismatch, 8, "layout-mismatch")           /* size, dtype or op differ from the other ranks' */  \
  X(kDuplicate, 9, "duplicate")                      /* this rank's contribution is already here */        \
  X(kStaleOp, 10, "stale-op")                        /* the op is finished and committed */                \
  X(kNoSlot, 11, "no-slot")                          /* more in flight than credit was given */            \
  X(kNoSlotMemory, 12, "no-slot-memory")             /* the server's slot memory can't hold the group */   \
  X(kGroupFailedBefore, 13, "group-failed-before")   /* the group was given up already */                  \
  X(kDraining, 14, "draining")                       /* the server takes no new groups */                  \
  X(kPreempted, 15, "preempted")                     /* an older chunk needed the slot: push it again */   \
  X(kGroupLackedMemory, 16, "group-lacked-memory")   /* the group was given up for want of memory */
// clang-format on

enum class FrameType : uint8_t {
#define X(name, number, text) name = number,
  SHOAL_FRAME_TYPES(X)
#undef X
};

enum class Refusal : uint8_t {
#define X(name, number, text) name = number,
  SHOAL_REFUSALS(X)
#undef X
};

#define X(name, number, text) +1
inline constexpr int kRefusalCount = 0 SHOAL_REFUSALS(X);
#undef X

std::string_view FrameTypeName(FrameType type);
std::string_view RefusalName(Refusal refusal);

// Fields that a type does not use are zero. Units: elements, never bytes.
struct FrameHeader {
  FrameType type = FrameType::kBye;
  GroupId group;
  Epoch epoch;
  // kHello: the newest op of which the rank has a result of any chunk. kCommit from a worker: not 0 if it wants to be
  // told when the commit watermark has come so far. kLeaveGroup: the first op that the rank does not call, as it closes
  // the group; 0: it goes on with other servers, or the group has failed. kGroupFailed from a server: `rank` has left,
  // and does not call this op, which others have called; 0: it has failed the group.
  OpNumber op;
  // Worker to server: all results of ops up to this one have landed at the sender.
  OpNumber landed_watermark;
  // Either way: as far as the sender knows, they have landed at every rank of the group.
  OpNumber commit_watermark;
  uint64_t bucket_elements = 0;
  uint64_t first_element = 0;
  uint32_t chunk_elements = 0;
  ChunkNumber chunk;
  Rank rank;        // of the worker that this message is from or for
  WireCodec codec;  // kPush, kResult: of the payload
  ReduceOp reduce_op = ReduceOp::kSum;
  Refusal refusal = Refusal::kNone;  // kGroupFailed: kGroupLackedMemory, or none
  double premul_factor = 1.0;        // kPremulSum only
  // How many contributions are in the payload; kPush: 0, or so many as are in a result that is handed over.
  uint32_t contributors = 0;
  uint32_t payload_crc32c = 0;  // 0: not computed; the transport's business
  // kPush, of a sum: where it has the contributions of some ranks alone, it is scaled up to all of the group.
  bool scaled_to_all = false;
  bool in_one_go = false;  // kPush: the rank waited for nothing between the first chunk of the op and this one
  // kPush: how many chunks of the group the rank has in flight with this one, to all servers, or the most that fits; 0:
  // nothing more is there yet that it could push to this server, or it does not say.
  uint8_t in_flight = 0;

  // kPush, kResult.
  uint64_t payload_bytes() const { return codec.WireBytes(chunk_elements); }

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

using FrameHeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

FrameHeaderBytes EncodeHeader(const FrameHeader& header);

// For checking payloads without decoding the rest (net/observed_transport.h). True for the header of a push or a
// result, and nothing more; the other two functions are for such headers alone.
bool HasPayloadChecksumField(std::span<const std::byte> header);
uint32_t ReadPayloadChecksum(std::span<const std::byte> header);
void WritePayloadChecksum(uint32_t checksum, std::span<std::byte> header);

// InvalidArgument says which field is wrong; FailedPrecondition is a frame of another wire version (text names both).
absl::StatusOr<FrameHeader> DecodeHeader(std::span<const std::byte> bytes);

// A rank's leave to open a group on the servers, signed by the scheduler (see core/token.h).
struct GroupToken {
  JobId job;
  GroupId group;
  Epoch epoch;              // of the shard map that the group starts with
  Incarnation incarnation;  // of the worker process
  Rank rank;
  uint32_t group_size = 0;
  uint32_t max_chunk_bytes = 0;
  uint32_t credit_chunks = 0;           // under way from one rank to one shard; 0: as the server likes
  uint32_t ranks_per_contribution = 1;  // whose contributions each rank of the group brings, summed: above 1 in a rail
  uint64_t expires_at_unix_s = 0;
  std::array<std::byte, 32> signature{};  // HMAC-SHA256 over all fields before it

  friend bool operator==(const GroupToken&, const GroupToken&) = default;
};

struct Welcome {
  Incarnation incarnation;     // of the server process
  uint32_t credit_chunks = 0;  // how many chunks of the group may be in flight to this shard

  friend bool operator==(const Welcome&, const Welcome&) = default;
};

struct Waiting {
  uint32_t missing_count = 0;
  uint32_t listed_count = 0;  // of `ranks`, at most kMaxMissingRanks
  std::array<Rank, kMaxMissingRanks> ranks{};

  friend bool operator==(const Waiting&, const Waiting&) = default;
};

inline constexpr size_t kGroupTokenSignedBytes = 60;
inline constexpr size_t kGroupTokenBytes = kGroupTokenSignedBytes + 32;

// A note in its own storage, ready to send.
struct Note {
  std::array<std::byte, kMaxNoteBytes> bytes;
  size_t size = 0;

  std::span<const std::byte> view() const { return {bytes.data(), size}; }
};

// The fields of a token that its signature covers, in wire form.
std::array<std::byte, kGroupTokenSignedBytes> TokenBytesToSign(const GroupToken& token);
// A whole token in wire form: what the scheduler hands out and what a hello carries.
std::array<std::byte, kGroupTokenBytes> EncodeToken(const GroupToken& token);
absl::StatusOr<GroupToken> DecodeToken(std::span<const std::byte> body);

Note MakeNote(const FrameHeader& header);
// `roster`: core/token.h has both.
Note MakeHello(const FrameHeader& header, std::span<const std::byte> token, std::span<const std::byte> roster = {});
Note MakeWelcome(const FrameHeader& header, const Welcome& welcome);
Note MakeWaiting(const FrameHeader& header, const Waiting& waiting);
// Text longer than kMaxReasonTextBytes is cut.
Note MakeTextNote(const FrameHeader& header, std::string_view text);

// The body is what follows the header. InvalidArgument when it is too short or out of range.
absl::StatusOr<Welcome> DecodeWelcome(std::span<const std::byte> body);
absl::StatusOr<Waiting> DecodeWaiting(std::span<const std::byte> body);
// Unprintable bytes become '?': the text comes from a peer and goes to logs and terminals.
std::string DecodeText(std::span<const std::byte> body);

}  // namespace shoal

#endif  // SHOAL_CORE_FRAME_H_
