// Data that is sealed, while its keys change.
#include "net/tcp/secure_channel.h"

#include <malloc.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <random>

#include "tests/conformance/transport/tcp_under_test.h"
#include "tests/unit/net/raw_socket.h"

namespace shoal {
namespace {

// Two ends of one connection, and what stands between them and counts the records of TLS.
class SecureChannelTest : public testing::Test {
 protected:
  static constexpr uint64_t kRecordsOfOneKey = 5;

  struct End {
    std::unique_ptr<SecureChannel> channel;
    std::unique_ptr<RawSocket> socket;   // the channel's
    std::unique_ptr<RawSocket> between;  // the other side of that, nearer to the other end
    size_t passed_on = 0;                // of what `between` has heard
    Bytes to_send;
    size_t sent = 0;
    Bytes received;
  };

  SecureChannelTest() : tls_(*TlsContext::Make(&keys_, kRecordsOfOneKey)) {
    for (End* end : {&a_, &b_}) {
      std::array<int, 2> pair{};
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()), 0);
      end->socket = std::make_unique<RawSocket>(pair[0]);
      end->between = std::make_unique<RawSocket>(pair[1]);
    }
    a_.channel = *SecureChannel::Dial(*tls_, a_.socket->fd(), *keys_.TicketFor(""));
    b_.channel = *SecureChannel::Listen(*tls_, b_.socket->fd());
    bool a_proved = false;
    bool b_proved = false;
    for (int i = 0; i < 10 && (!a_proved || !b_proved); ++i) {
      a_proved = a_proved || *a_.channel->Handshake();
      PassOn(a_, b_);
      b_proved = b_proved || *b_.channel->Handshake();
      PassOn(b_, a_);
    }
    EXPECT_TRUE(a_proved && b_proved);
  }

  static void PassOn(End& from, End& to) {
    EXPECT_FALSE(from.between->HasEnded());
    const auto rest = std::span<const std::byte>(from.between->heard()).subspan(from.passed_on);
    const ssize_t sent = send(to.between->fd(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    from.passed_on += std::max<ssize_t>(sent, 0);
  }

  // A step of each end: it sends and reads pieces of random sizes.
  void Step(End& end) {
    std::array<iovec, 3> pieces{};
    size_t count = 0;
    for (size_t at = end.sent; count < pieces.size() && at < end.to_send.size(); ++count) {
      const size_t bytes = std::min<size_t>(kLeastPieceBytes + random_() % 30'000, end.to_send.size() - at);
      pieces[count] = {.iov_base = end.to_send.data() + at, .iov_len = bytes};
      at += bytes;
    }
    const SecureChannel::Transfer written = end.channel->Write(std::span(pieces).first(count));
    ASSERT_EQ(written.error, 0);
    end.sent += written.bytes;
    Bytes buffer(1 + random_() % 50'000);
    const iovec piece{.iov_base = buffer.data(), .iov_len = buffer.size()};
    const SecureChannel::Transfer read = end.channel->Read(std::span(&piece, 1));
    ASSERT_FALSE(read.ended) << strerror(read.error);
    end.received.insert(end.received.end(), buffer.begin(), buffer.begin() + read.bytes);
  }

  // How many records of data an end has sent under each of its keys, oldest first.
  static std::vector<uint64_t> RecordsUnderEachKey(const End& end) {
    constexpr size_t kHeadBytes = 5;
    constexpr std::byte kData{0x17};  // as all that is sealed is called
    // The message, its kind and AES-GCM's tag. No piece is as small as this says.
    constexpr size_t kKeyUpdateBytes = 5 + 1 + 16;
    const Bytes& said = end.between->heard();
    std::vector<uint64_t> records = {0};
    for (size_t at = 0; at + kHeadBytes <= said.size();) {
      const size_t bytes = std::to_integer<size_t>(said[at + 3]) << 8 | std::to_integer<size_t>(said[at + 4]);
      if (said[at] == kData && bytes == kKeyUpdateBytes) {
        records.push_back(0);
      } else if (said[at] == kData) {
        ++records.back();
      }
      at += kHeadBytes + bytes;
    }
    return records;
  }

  static constexpr size_t kLeastPieceBytes = 100;
  std::mt19937_64 random_{1};
  SharedSecret keys_{"the cluster's", SharedSecret::kSealed};
  std::unique_ptr<TlsContext> tls_;
  End a_;
  End b_;
};

TEST_F(SecureChannelTest, DataArrivesAsItWasSentWhileKeysChange) {
  a_.to_send = Pattern(3'000'000, 1);
  b_.to_send = Pattern(2'000'000, 2);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (a_.received.size() < b_.to_send.size() || b_.received.size() < a_.to_send.size()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    ASSERT_NO_FATAL_FAILURE(Step(a_));
    PassOn(a_, b_);
    ASSERT_NO_FATAL_FAILURE(Step(b_));
    PassOn(b_, a_);
  }
  EXPECT_TRUE(a_.received == b_.to_send);
  EXPECT_TRUE(b_.received == a_.to_send);
  for (const End* end : {&a_, &b_}) {
    const std::vector<uint64_t> records = RecordsUnderEachKey(*end);
    EXPECT_GT(records.size(), 20u);
    // The first one's handshake counts here.
    for (const uint64_t under_one_key : records) EXPECT_LE(under_one_key, kRecordsOfOneKey + 1);
  }
}

// A member that makes of TLS what no Shoal process does, and the end that hears it.
class HostileMemberTest : public testing::Test {
 protected:
  HostileMemberTest() {
    std::array<int, 2> pair{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()), 0);
    ours_ = std::make_unique<RawSocket>(pair[0]);
    theirs_ = std::make_unique<RawSocket>(pair[1]);
    channel_ = *SecureChannel::Listen(*tls_, ours_->fd());
    member_ = tls_->Dial(*keys_.TicketFor(""));
    EXPECT_EQ(SSL_set_fd(member_.get(), theirs_->fd()), 1);
    bool proved = false;
    for (int i = 0; i < 10 && !proved; ++i) {
      SSL_do_handshake(member_.get());
      proved = *channel_->Handshake();
    }
    EXPECT_TRUE(proved);
  }

  void ChangeKey(int how) {
    ASSERT_EQ(SSL_key_update(member_.get(), how), 1);
    ASSERT_EQ(SSL_do_handshake(member_.get()), 1);
  }
  SecureChannel::Transfer Read(std::span<std::byte> to) {
    const iovec room{.iov_base = to.data(), .iov_len = to.size()};
    return channel_->Read(std::span(&room, 1));
  }

  // Of TLS: a head, the message, its kind and AES-GCM's tag.
  static constexpr size_t kKeyUpdateBytes = 5 + 5 + 1 + 16;
  SharedSecret keys_{"the cluster's", SharedSecret::kSealed};
  std::unique_ptr<TlsContext> tls_ = *TlsContext::Make(&keys_);
  std::unique_ptr<RawSocket> ours_;
  std::unique_ptr<RawSocket> theirs_;
  std::unique_ptr<SecureChannel> channel_;
  Ssl member_;
};

// What it asks is answered into memory of ours, until the socket takes it.
TEST_F(HostileMemberTest, AskingForNewKeysWithoutEndAndReadingSlowlyItTakesNoMemory) {
  Bytes payload = Pattern(1 << 20, 1);
  const iovec piece{.iov_base = payload.data(), .iov_len = payload.size()};
  while (!channel_->Write(std::span(&piece, 1)).blocked) continue;
  ASSERT_TRUE(channel_->OwesBytes());

  constexpr int kRounds = 200;
  constexpr int kQuestionsPerRound = 100;  // as many as the socket takes
  const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kQuestionsPerRound; ++i) ASSERT_NO_FATAL_FAILURE(ChangeKey(SSL_KEY_UPDATE_REQUESTED));
    std::array<std::byte, 100> buffer;
    const SecureChannel::Transfer read = Read(buffer);
    ASSERT_TRUE(read.blocked && !read.ended) << strerror(read.error);
    // As much as was answered: what is owed never ends.
    Bytes heard(kQuestionsPerRound * kKeyUpdateBytes);
    ASSERT_EQ(recv(theirs_->fd(), heard.data(), heard.size(), MSG_DONTWAIT), static_cast<ssize_t>(heard.size()));
    channel_->Write({});
    ASSERT_TRUE(channel_->OwesBytes());
  }
  const size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
  EXPECT_LT(after, before + kRounds * kQuestionsPerRound * kKeyUpdateBytes / 2);
}

TEST_F(HostileMemberTest, ChangingItsKeyWithoutEndItKeepsNobodyElseWaiting) {
  // More than is read at once, and no more than the socket takes.
  constexpr int kChanges = 7000;
  BIO* const said = BIO_new(BIO_s_mem());
  SSL_set0_wbio(member_.get(), said);
  for (int i = 0; i < kChanges; ++i) ASSERT_NO_FATAL_FAILURE(ChangeKey(SSL_KEY_UPDATE_NOT_REQUESTED));
  const Bytes words = Pattern(1000, 1);
  ASSERT_EQ(SSL_write(member_.get(), words.data(), static_cast<int>(words.size())), static_cast<int>(words.size()));
  Bytes all(BIO_pending(said));
  ASSERT_EQ(BIO_read(said, all.data(), static_cast<int>(all.size())), static_cast<int>(all.size()));
  ASSERT_EQ(send(theirs_->fd(), all.data(), all.size(), MSG_DONTWAIT), static_cast<ssize_t>(all.size()));

  Bytes heard(words.size());
  const SecureChannel::Transfer first = Read(heard);
  EXPECT_TRUE(first.bytes == 0 && first.blocked && !first.ended) << strerror(first.error);
  int unread = 0;
  ASSERT_EQ(ioctl(ours_->fd(), FIONREAD, &unread), 0);
  EXPECT_GT(unread, 0) << "all of it was read in one call";
  SecureChannel::Transfer next;
  for (int i = 0; i < 10 && next.bytes == 0 && !next.ended; ++i) next = Read(heard);
  EXPECT_EQ(next.bytes, words.size());
  EXPECT_TRUE(heard == words);
}

}  // namespace
}  // namespace shoal
