// The parts of net/shm: the rings, the sealed memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#include "net/shm/outbox.h"
#include "net/shm/same_node_socket.h"
#include "net/shm/shared_memory.h"
#include "tests/conformance/forbidden_call.h"
#include "tests/conformance/transport/transport_harness.h"

namespace shoal {
namespace {

// A ring in plain memory, written and read by the test.
class Outbox : public testing::Test {
 protected:
  alignas(64) std::array<std::byte, kOutboxBytes> memory_{};
  OutboxWriter writer_{memory_};
  OutboxReader reader_{memory_};

  bool Append(const Bytes& header, const Bytes& payload) {
    const absl::StatusOr<bool> appended = writer_.Append({.type = RecordType::kInline, .payload_bytes = payload.size()},
                                                         header, payload, reader_.consumed());
    EXPECT_TRUE(appended.ok()) << appended.status();
    return appended.value_or(false);
  }

  // Puts a record at the reader's position, as whoever writes garbage would.
  void Forge(const RecordHeader& record, uint64_t produced) {
    std::memcpy(memory_.data() + kOutboxHeaderBytes + reader_.consumed() % kRingBytes, &record, sizeof(record));
    writer_.header().produced.store(produced);
  }
};

TEST_F(Outbox, RecordsArriveInOrderThroughManyWraps) {
  std::mt19937_64 random(1);
  uint64_t written = 0;
  uint64_t read = 0;
  uint64_t full = 0;
  const auto header_of = [](uint64_t number) { return Pattern(number % (kMaxNoteBytes + 1), number); };
  const auto payload_of = [](uint64_t number) { return Pattern(number * 37 % 8193, number + 1); };
  while (read < 5000) {
    for (uint64_t i = random() % 100; i > 0; --i) {
      if (!Append(header_of(written), payload_of(written))) {
        ++full;
        break;
      }
      ++written;
    }
    writer_.Publish();
    for (uint64_t i = random() % 100; i > 0; --i) {
      const absl::StatusOr<std::optional<OutboxReader::Record>> record = reader_.Next();
      ASSERT_TRUE(record.ok()) << record.status();
      EXPECT_EQ(record->has_value(), read < written);
      if (!record->has_value()) break;
      ASSERT_TRUE(std::ranges::equal((*record)->header, header_of(read))) << read;
      ASSERT_TRUE(std::ranges::equal((*record)->payload, payload_of(read))) << read;
      ++read;
    }
  }
  EXPECT_GT(full, 0u);
  EXPECT_GT(reader_.consumed(), 20 * kRingBytes);
}

TEST_F(Outbox, NothingIsSeenBeforePublish) {
  ASSERT_TRUE(Append(Bytes(8), {}));
  EXPECT_FALSE(reader_.HasMore());
  EXPECT_TRUE(writer_.Publish());
  EXPECT_FALSE(writer_.Publish());
  EXPECT_TRUE(reader_.HasMore());
}

TEST_F(Outbox, AFullRingTakesNothingUntilSomethingWasConsumed) {
  uint64_t written = 0;
  while (Append(Bytes(0), Bytes(32))) ++written;
  EXPECT_EQ(written, kRingBytes / 64) << "to the last byte";
  writer_.Publish();
  ASSERT_TRUE(reader_.Next()->has_value());
  EXPECT_TRUE(Append(Bytes(0), Bytes(32)));
  EXPECT_FALSE(Append(Bytes(0), Bytes(32)));
}

TEST_F(Outbox, AConsumerThatSaysItReadMoreThanThereWasIsRefused) {
  ASSERT_TRUE(Append(Bytes(8), {}));
  writer_.Publish();
  EXPECT_TRUE(absl::IsInvalidArgument(writer_.Append({.type = RecordType::kNote}, Bytes(8), {}, 65).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(writer_.Append({.type = RecordType::kNote}, Bytes(8), {}, UINT64_MAX).status()));
  EXPECT_TRUE(writer_.Append({.type = RecordType::kNote}, Bytes(8), {}, 64).ok());
}

TEST_F(Outbox, WhatIsNoRecordIsRefused) {
  const RecordHeader good{.record_bytes = 64, .type = RecordType::kInline, .header_bytes = 8, .payload_bytes = 24};
  struct Case {
    const char* what;
    RecordHeader record;
    uint64_t produced;
  };
  std::vector<Case> cases = {
      {"less produced than the record is long", good, 32}, {"more produced than the ring holds", good, kRingBytes + 32},
      {"an impossible counter", good, UINT64_MAX},         {"an empty record", {}, 64},
      {"a counter that is no multiple", good, 7},
  };
  const auto with = [&](const char* what, auto change) {
    RecordHeader record = good;
    change(record);
    cases.push_back({what, record, kRingBytes});
  };
  with("too short", [](RecordHeader& r) { r.record_bytes = 31; });
  with("not aligned", [](RecordHeader& r) { r.record_bytes = 65; });
  with("longer than the ring", [](RecordHeader& r) { r.record_bytes = kRingBytes + 32; });
  with("as long as can be said", [](RecordHeader& r) { r.record_bytes = UINT32_MAX - 31; });
  with("a header beyond the record", [](RecordHeader& r) { r.header_bytes = 33; });
  with("a header that is too long", [](RecordHeader& r) { r.record_bytes = 4096, r.header_bytes = kMaxNoteBytes + 1; });
  with("a payload beyond the record", [](RecordHeader& r) { r.payload_bytes = 25; });
  with("an endless payload", [](RecordHeader& r) { r.payload_bytes = UINT64_MAX; });
  with("padding before the end", [](RecordHeader& r) { r.type = RecordType::kPad; });
  with("padding and nothing else", [](RecordHeader& r) { r.type = RecordType::kPad, r.record_bytes = kRingBytes; });
  for (const Case& c : cases) {
    Forge(c.record, c.produced);
    EXPECT_TRUE(absl::IsInvalidArgument(reader_.Next().status())) << c.what;
    EXPECT_EQ(reader_.consumed(), 0u) << c.what;
  }
  Forge(good, 64);
  EXPECT_TRUE(reader_.Next().ok()) << "the record that the others differ from";
}

TEST(SameNodeSocket, WhatWasSaidBeforeTheEndIsHeardAlsoWhereSomethingWasLeftUnread) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor here(ends[0]);
  FileDescriptor there(ends[1]);
  RingBell(here.get());  // never read: the kernel resets the connection
  const std::vector<std::byte> last_words(9, std::byte{7});
  ASSERT_TRUE(SendOnThisNode(there.get(), last_words, {}).ok());
  there.Reset();
  std::vector<std::byte> message(64);
  const auto received = ReceiveOnThisNode(here.get(), message);
  ASSERT_TRUE(received.ok()) << received.status();
  ASSERT_TRUE(received->has_value());
  EXPECT_EQ((*received)->bytes, last_words.size());
  EXPECT_TRUE(absl::IsUnavailable(ReceiveOnThisNode(here.get(), message).status()));
}

TEST(SharedMemory, PeersReadAndCantWrite) {
  const std::unique_ptr<OwnedMemory> owned = *OwnedMemory::Make("test", 100'000);
  const std::unique_ptr<PeerMemory> seen = *PeerMemory::Map(owned->fd(), 100'000);
  owned->bytes()[99'999] = std::byte{7};
  EXPECT_EQ(seen->bytes()[99'999], std::byte{7});
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, owned->fd(), 0), MAP_FAILED);
  EXPECT_LT(pwrite(owned->fd(), "x", 1, 0), 0);
  EXPECT_NE(ftruncate(owned->fd(), 1), 0);
  EXPECT_NE(ftruncate(owned->fd(), 1 << 20), 0);
  EXPECT_NE(fallocate(owned->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
}

TEST(SharedMemory, WhoMayNotMakeItIsToldSo) {
  for (const int error : {EPERM, EACCES, ENOSYS}) {
    std::thread([error] {
      ForbidThisThread(SYS_memfd_create, static_cast<uint16_t>(error));
      const absl::Status status = OwnedMemory::Make("test", 4096).status();
      EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    }).join();
  }
}

TEST(SharedMemory, NobodyExecutesIt) {
  const FileDescriptor known(memfd_create("test", MFD_CLOEXEC | MFD_NOEXEC_SEAL));
  if (!known.valid()) GTEST_SKIP() << "Linux before 6.3 does not know that";
  const std::unique_ptr<OwnedMemory> owned = *OwnedMemory::Make("test", 4096);
  EXPECT_NE(fchmod(owned->fd(), 0700), 0);
}

TEST(SharedMemory, WhatItsOwnerCouldTakeAwayIsNotMapped) {
  constexpr int kEnough = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
  const auto memory = [](unsigned flags, int seals) {
    FileDescriptor fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
    if (fd.valid() && (ftruncate(fd.get(), 4 << 20) != 0 || fcntl(fd.get(), F_ADD_SEALS, seals) != 0)) fd.Reset();
    return fd;
  };
  EXPECT_TRUE(PeerMemory::Map(memory(0, kEnough).get(), 4 << 20).ok());
  const auto refused = [](int fd, uint64_t bytes) {
    return absl::IsInvalidArgument(PeerMemory::Map(fd, bytes).status());
  };
  for (const int seals : {0, F_SEAL_SHRINK, kEnough & ~F_SEAL_SHRINK, kEnough & ~F_SEAL_FUTURE_WRITE}) {
    EXPECT_TRUE(refused(memory(0, seals).get(), 4 << 20)) << seals;
  }
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{4096}, uint64_t{4 << 20} + 1, UINT64_MAX}) {
    EXPECT_TRUE(refused(memory(0, kEnough).get(), bytes)) << bytes;
  }
  EXPECT_TRUE(refused(-1, 4096));
  EXPECT_TRUE(refused(FileDescriptor(open("/dev/zero", O_RDONLY | O_CLOEXEC)).get(), 4096));
  EXPECT_TRUE(refused(FileDescriptor(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)).get(), 4096));
  // Reading it would end the process where the kernel has no huge pages set aside.
  if (const FileDescriptor huge = memory(MFD_HUGETLB, kEnough); huge.valid()) {
    EXPECT_TRUE(refused(huge.get(), 4 << 20));
  }
}

}  // namespace
}  // namespace shoal
