#include "net/tcp/tcp_handshake.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "net/peer_socket.h"

namespace shoal {
namespace {

// The head of TLS's first record: a handshake, of a version that is always the same, then its length.
constexpr size_t kTlsHeadBytes = 5;
constexpr std::array<unsigned char, 2> kHandshakeOfTls = {0x16, 0x03};
// Ours has less than half of it.
constexpr size_t kMaxHelloBytes = 1024;

absl::Status About(const std::string& peer, const absl::Status& why) {
  return {why.code(), absl::StrCat(peer, ": ", why.message())};
}

}  // namespace

absl::StatusOr<bool> TcpHandshake::Proceed(bool hung_up) {
  absl::StatusOr<bool> goes_on = true;
  while (goes_on.ok() && *goes_on && stage_ != Stage::kAgreed) {
    switch (stage_) {
      case Stage::kConnecting:
        goes_on = FinishConnecting();
        break;
      case Stage::kAwaitingHello:
        goes_on = AwaitHello(hung_up);
        break;
      case Stage::kProving:
        goes_on = Prove();
        break;
      case Stage::kAgreeing:
        goes_on = Agree();
        break;
      case Stage::kAgreed:
        break;
    }
  }
  return goes_on;
}

absl::StatusOr<bool> TcpHandshake::FinishConnecting() {
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(stream_.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("connecting to ", stream_.peer_name,
                                               " failed (check that a server listens there): ", strerror(error)));
  }
  // TCP connects a socket to itself where no process listens and the port numbers happen to be the same.
  if (BoundAddress(stream_.socket.get()) == stream_.peer_name) {
    return absl::UnavailableError(absl::StrCat("no process listens at ", stream_.peer_name));
  }
  absl::StatusOr<std::unique_ptr<SecureChannel>> channel = SecureChannel::Dial(*tls_, stream_.socket.get(), *ticket_);
  if (!channel.ok()) return About(stream_.peer_name, channel.status());
  stream_.channel = *std::move(channel);
  stream_.queue.Add(RecordKind::kGreeting, GreetingBody({}, carries_));
  stage_ = Stage::kProving;
  return true;
}

absl::StatusOr<bool> TcpHandshake::AwaitHello(bool hung_up) {
  std::array<unsigned char, kTlsHeadBytes + kMaxHelloBytes> hello;
  const ssize_t got = recv(stream_.socket.get(), hello.data(), hello.size(), MSG_DONTWAIT | MSG_PEEK);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
    return absl::UnavailableError(absl::StrCat(stream_.peer_name, " closed the connection before it said anything"));
  }
  if (got < 0) return false;
  const auto length = static_cast<size_t>(got);
  const size_t of_head = std::min(length, kHandshakeOfTls.size());
  const size_t hello_bytes = length < kTlsHeadBytes ? 0 : size_t{hello[3]} << 8 | hello[4];
  if (std::memcmp(hello.data(), kHandshakeOfTls.data(), of_head) != 0 || hello_bytes > kMaxHelloBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(stream_.peer_name, " did not begin as a Shoal process does, but with something else"));
  }
  const size_t wanted = kTlsHeadBytes + hello_bytes;
  const bool is_whole = length >= kTlsHeadBytes && length >= wanted;
  if (!is_whole && hung_up) {
    return absl::UnavailableError(absl::StrCat(stream_.peer_name, " closed the connection in its first message"));
  }
  // The kernel wakes us again when all of it is there.
  const int low_water = is_whole ? 1 : static_cast<int>(wanted);
  setsockopt(stream_.socket.get(), SOL_SOCKET, SO_RCVLOWAT, &low_water, sizeof(low_water));
  if (!is_whole) return false;
  absl::StatusOr<std::unique_ptr<SecureChannel>> channel = SecureChannel::Listen(*tls_, stream_.socket.get());
  if (!channel.ok()) return About(stream_.peer_name, channel.status());
  stream_.channel = *std::move(channel);
  stage_ = Stage::kProving;
  return true;
}

absl::StatusOr<bool> TcpHandshake::Prove() {
  const absl::StatusOr<bool> over = stream_.channel->Handshake();
  if (!over.ok()) {
    HangUpAfterTheLastWord(stream_.socket.get());
    if (dials() && absl::IsUnavailable(over.status())) {
      return absl::UnavailableError(
          absl::StrCat(stream_.peer_name, ": ", over.status().message(), " (it is stopping, or is no Shoal server)"));
    }
    if (!dials() || !absl::IsUnauthenticated(over.status())) return About(stream_.peer_name, over.status());
    return absl::UnauthenticatedError(
        absl::StrCat(stream_.peer_name,
                     " does not take the key of this process, or does not know it: both must belong "
                     "to the same scheduler (",
                     over.status().message(), ")"));
  }
  stream_.AwaitRoom(stream_.channel->OwesBytes());
  if (*over) stage_ = Stage::kAgreeing;
  return *over;
}

absl::StatusOr<bool> TcpHandshake::Agree() {
  std::vector<uint64_t> none;
  if (const int error = stream_.Flush(&none); error != 0) {
    return absl::UnavailableError(absl::StrCat("the connection to ", stream_.peer_name, " ended: ", strerror(error)));
  }
  for (;;) {
    const absl::StatusOr<std::optional<RecordReader::Item>> item = stream_.reader.Next();
    if (!item.ok()) return About(stream_.peer_name, item.status());
    if (item->has_value()) {
      if (absl::Status status = Read(**item); !status.ok()) return About(stream_.peer_name, status);
      stage_ = Stage::kAgreed;
      return true;
    }
    const SecureChannel::Transfer transfer = stream_.channel->Read(stream_.reader.Space({}));
    stream_.reader.Received(transfer.bytes);
    if (transfer.bytes > 0) continue;
    if (!transfer.ended) return false;
    const std::string reason = transfer.error != 0 ? absl::StrCat(": ", strerror(transfer.error)) : "";
    return absl::UnavailableError(absl::StrCat(stream_.peer_name, " closed the connection during the handshake", reason,
                                               " (it is stopping, or too many processes connect at once)"));
  }
}

absl::Status TcpHandshake::Read(const RecordReader::Item& item) {
  if (dials() && item.kind == RecordKind::kRefusal) {
    const absl::Status why = ReasonOfRefusal(item.bytes);
    return {why.code(), absl::StrCat("refused the connection: ", why.message())};
  }
  if (item.kind != (dials() ? RecordKind::kWelcome : RecordKind::kGreeting)) {
    return absl::FailedPreconditionError("did not begin with a greeting");
  }
  const absl::StatusOr<uint16_t> version = dials() ? VersionOfWelcome(item.bytes) : AgreeOnVersion(item.bytes);
  if (!version.ok()) {
    if (!dials()) Refuse(version.status());
    return absl::FailedPreconditionError(version.status().message());
  }
  version_ = *version;
  if (!dials()) carries_ = WhatGreetingCarries(item.bytes);
  return absl::OkStatus();
}

void TcpHandshake::Welcome() { stream_.queue.Add(RecordKind::kWelcome, WelcomeBody(version_)); }

void TcpHandshake::Refuse(const absl::Status& why) {
  stream_.queue.Add(RecordKind::kRefusal, RefusalBody(why));
  std::vector<uint64_t> none;
  stream_.Flush(&none);
  HangUpAfterTheLastWord(stream_.socket.get());
}

}  // namespace shoal
