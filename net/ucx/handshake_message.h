// The messages that two transports exchange over a plain TCP connection before UCX hears of either.
//
//   client -> server   greeting   "let me in: I will come to UCX's listener from this port, with UCX set up like this"
//   server -> client   welcome    "come in: UCX listens at this port", or
//                      refusal    a text with the reason
//
// A stranger at UCX's listener can end the process (seen with UCX 1.13). So only a peer that has sent a complete
// greeting, of the right version and with the right checksum, reaches it. That keeps out strangers and accidents, but
// not an attacker who knows Shoal: it is no authentication.
//
// Layout, little endian. It never changes, so that versions can refuse each other; only what a greeting or welcome has
// in its body may:
//   0  magic "SHOALNET"   8  version   12  kind   16  bytes of the body   20  body   then 8 bytes of checksum
// The body of a greeting or welcome is the port, 4 bytes, and in a greeting the settings; that of a refusal its text.
//
// Pure functions, any thread.
#ifndef SHOAL_NET_UCX_HANDSHAKE_MESSAGE_H_
#define SHOAL_NET_UCX_HANDSHAKE_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shoal {

// Of what this transport itself puts on the wire, in handshakes and in UCX's messages.
inline constexpr uint32_t kTransportVersion = 1;
inline constexpr size_t kMaxRefusalBytes = 512;
inline constexpr size_t kMaxSettingsBytes = 256;
inline constexpr size_t kMaxHandshakeBytes = 20 + kMaxRefusalBytes + 8;

enum class HandshakeKind : uint32_t { kGreeting = 1, kWelcome = 2, kRefusal = 3 };

struct HandshakeMessage {
  HandshakeKind kind = HandshakeKind::kGreeting;
  uint32_t version = kTransportVersion;
  uint16_t port = 0;  // kGreeting, kWelcome; never 0
  // Texts are cut to their limits, and what is not printable reads "?".
  std::string settings;  // kGreeting; see UcxSettings::Agreement
  std::string refusal;   // kRefusal
};

std::vector<std::byte> EncodeHandshake(const HandshakeMessage& message);

// Reads the one message that `bytes` are, or are the beginning of.
//   nullopt: so far so good, but more must come.
//   InvalidArgument: this was not written by a Shoal process; decided at the first byte that shows it.
//   FailedPrecondition: it was, but by one of another version. The text names both. A refusal is read in any version.
absl::StatusOr<std::optional<HandshakeMessage>> DecodeHandshake(std::span<const std::byte> bytes);

}  // namespace shoal

#endif  // SHOAL_NET_UCX_HANDSHAKE_MESSAGE_H_
