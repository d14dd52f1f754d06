// What travels over a connection that was proved: records, each a head of 16 bytes, a header, and perhaps a payload.
//
// Layout of a head, little endian: 0 kind (2 bytes)   2 bytes of the header (2)   4 zero (4)   8 bytes of the payload
// (8)
//
//   client -> server   greeting   "I speak these versions"
//   server -> client   welcome    "come in, we speak this one", or
//                      refusal    the reason
//   then, both ways    notes and payloads
//
// The head and the first three kinds never change, so that any two releases can agree on a version or refuse each other
// by name. The bodies of greeting and welcome may grow: who reads one ignores what it does not know.
//
// Pure functions; any thread.
#ifndef SHOAL_NET_TCP_RECORD_H_
#define SHOAL_NET_TCP_RECORD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shoal {

// Of what this transport puts on the wire once a connection is up.
inline constexpr uint16_t kOldestTcpVersion = 1;
inline constexpr uint16_t kNewestTcpVersion = 1;

enum class RecordKind : uint16_t { kGreeting = 1, kWelcome = 2, kRefusal = 3, kNote = 4, kPayload = 5 };

inline constexpr size_t kRecordHeadBytes = 16;

struct RecordHead {
  RecordKind kind = RecordKind::kNote;
  uint16_t header_bytes = 0;   // at most kMaxNoteBytes; 0 in a payload's record alone
  uint64_t payload_bytes = 0;  // above 0 in a payload's record alone
};

std::array<std::byte, kRecordHeadBytes> EncodeRecordHead(const RecordHead& head);

// InvalidArgument: it is none; the text says why.
absl::StatusOr<RecordHead> DecodeRecordHead(std::span<const std::byte, kRecordHeadBytes> bytes);

struct VersionRange {
  uint16_t oldest = kOldestTcpVersion;
  uint16_t newest = kNewestTcpVersion;
};

// `carries`: what moves payloads between the two beside these records, and must be the same on both sides; empty:
// nothing. It is cut to what fits.
std::vector<std::byte> GreetingBody(const VersionRange& versions, std::string_view carries = "");
// The newest version that both sides speak. InvalidArgument: this is no greeting. FailedPrecondition: there is none;
// the text names both ranges.
absl::StatusOr<uint16_t> AgreeOnVersion(std::span<const std::byte> greeting);
// What is not printable reads "?".
std::string WhatGreetingCarries(std::span<const std::byte> greeting);

std::vector<std::byte> WelcomeBody(uint16_t version);
// InvalidArgument: this is no welcome, or to a version that we don't speak.
absl::StatusOr<uint16_t> VersionOfWelcome(std::span<const std::byte> welcome);

// The text is cut to what fits; a FailedPrecondition stays one at the other side, other codes become Unavailable.
std::vector<std::byte> RefusalBody(const absl::Status& why);
// Never OK. What is not printable reads "?".
absl::Status ReasonOfRefusal(std::span<const std::byte> refusal);

}  // namespace shoal

#endif  // SHOAL_NET_TCP_RECORD_H_
