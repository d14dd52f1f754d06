// Strangers at the door of a same-node transport: greetings that are none, other versions, and who says nothing at all.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <functional>
#include <limits>

#include "net/wake_up.h"
#include "tests/conformance/open_file_limit.h"
#include "tests/conformance/transport/shm_under_test.h"
#include "tests/conformance/transport/transport_harness.h"
#include "tests/unit/net/shm/shm_stranger.h"

namespace shoal {
namespace {

class ShmStrangers : public testing::Test {
 protected:
  ShmStrangers() : node_(MakeShmUnderTest({.listen_address = NextAddress()})), friend_(MakeShmUnderTest({})) {}

  std::string address() { return node_.transport().listen_address(); }

  bool PollUntil(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      node_.Poll();
      friend_.Poll();
      sched_yield();
    }
    return true;
  }

  // A peer that connects now is served.
  void ExpectServed() {
    node_.AcceptAll();
    const size_t before = node_.received().size();
    const Bytes payload = Pattern(100'000, before);
    const PeerId peer = *friend_.transport().Connect(address());
    ASSERT_TRUE(PollUntil([&] { return friend_.IsUp(peer); })) << friend_.WhyDown(peer);
    ASSERT_TRUE(friend_.transport().Send(peer, {}, payload, 1).ok());
    ASSERT_TRUE(PollUntil([&] { return node_.received().size() > before; }));
    EXPECT_TRUE(node_.received().back().payload == payload);
    friend_.transport().Close(peer);
    ASSERT_TRUE(PollUntil([&] { return friend_.IsDown(peer); }));
  }

  Node node_;
  Node friend_;
};

FileDescriptor Sealed(uint64_t bytes) {
  FileDescriptor fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE), 0);
  return fd;
}

TEST_F(ShmStrangers, WhoseGreetingIsNoneAreTurnedAway) {
  const FileDescriptor unsealed(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(unsealed.get(), kOutboxBytes), 0);
  const FileDescriptor huge = Sealed(uint64_t{1} << 46);
  const FileDescriptor zero(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  struct Case {
    std::string what;
    std::function<void(Stranger&)> say;
  };
  std::vector<Case> cases;
  for (const size_t size : {1, 8, 15, 16, 39, 40, 41, 4096}) {
    cases.push_back({absl::StrCat(size, " bytes of noise"), [size](Stranger& s) { s.Say(Pattern(size, size)); }});
  }
  const auto greeting = [&](const char* what, std::function<void(SameNodeGreeting*, std::vector<int>*)> change) {
    cases.push_back({what, [change](Stranger& s) {
                       SameNodeGreeting said = Stranger::Greeting();
                       std::vector<int> memory = s.Memory();
                       change(&said, &memory);
                       s.Greet(said, memory);
                     }});
  };
  greeting("no memory", [](auto*, auto* memory) { memory->clear(); });
  greeting("an outbox alone", [](auto*, auto* memory) { memory->pop_back(); });
  greeting("three descriptors for two", [](auto*, auto* memory) { memory->push_back((*memory)[0]); });
  greeting("four descriptors", [](auto*, auto* memory) { memory->resize(4, (*memory)[0]); });
  greeting("64 descriptors", [](auto*, auto* memory) { memory->resize(64, (*memory)[0]); });
  greeting("a region that is not there", [](auto* said, auto*) { said->region_bytes = 4096; });
  greeting("a region of another size", [](auto* said, auto* memory) {
    said->region_bytes = 4096;
    memory->push_back((*memory)[1]);
  });
  greeting("memory in another order", [](auto*, auto* memory) { std::swap((*memory)[0], (*memory)[1]); });
  greeting("memory that is not sealed", [&](auto*, auto* memory) { (*memory)[0] = unsealed.get(); });
  greeting("a device", [&](auto*, auto* memory) { (*memory)[1] = zero.get(); });
  greeting("a socket", [](auto*, auto* memory) { (*memory)[0] = fileno(stderr); });
  greeting("a smaller outbox", [](auto* said, auto*) { said->outbox_bytes -= 4096; });
  greeting("a larger outbox", [](auto* said, auto*) { said->outbox_bytes += 4096; });
  greeting("an arena without a status page", [](auto* said, auto*) { said->arena_bytes = kStatusPageBytes - 1; });
  greeting("less arena than promised", [](auto* said, auto*) { said->arena_bytes += 4096; });
  greeting("an endless arena", [](auto* said, auto*) { said->arena_bytes = UINT64_MAX; });
  greeting("an endless region", [](auto* said, auto* memory) {
    said->region_bytes = UINT64_MAX - 4096;
    memory->push_back((*memory)[1]);
  });
  greeting("more memory than there are addresses for", [&](auto* said, auto* memory) {
    said->arena_bytes = uint64_t{1} << 46;
    (*memory)[1] = huge.get();
  });
  cases.push_back({"nothing, and hangs up", [](Stranger& s) { shutdown(s.socket(), SHUT_WR); }});
  cases.push_back({"an empty message", [](Stranger& s) { s.Say({}); }});
  for (const Case& c : cases) {
    Stranger stranger = Stranger::ConnectTo(address());
    c.say(stranger);
    EXPECT_TRUE(PollUntil([&] { return stranger.HasEnded(); })) << c.what;
  }
  EXPECT_EQ(node_.Count(TransportEventKind::kPeerUp), 0u);
  ExpectServed();
}

TEST_F(ShmStrangers, OfAnotherVersionAreToldOurs) {
  Stranger stranger = Stranger::ConnectTo(address());
  SameNodeGreeting said = Stranger::Greeting();
  said.layout_version += 1;
  stranger.Greet(said, stranger.Memory());
  absl::Status status;
  ASSERT_TRUE(PollUntil([&] { return recv(stranger.socket(), &said, sizeof(said), MSG_PEEK | MSG_DONTWAIT) >= 0; }));
  EXPECT_EQ(said.magic, kSameNodeMagic);
  EXPECT_EQ(said.layout_version, kSameNodeLayoutVersion);
  EXPECT_TRUE(PollUntil([&] { return stranger.HasEnded(); }));
  EXPECT_EQ(node_.Count(TransportEventKind::kPeerUp), 0u);
  ExpectServed();
}

// Each of these listens at an address, and our transport connects to it.
TEST_F(ShmStrangers, ThatListenAreReportedWithWhatIsWrong) {
  struct Case {
    absl::StatusCode expected;
    std::function<void(Stranger&)> say;
  };
  const std::vector<Case> cases = {
      {absl::StatusCode::kUnavailable, [](Stranger& s) { s.HangUp(); }},
      {absl::StatusCode::kInvalidArgument, [](Stranger& s) { s.Say(Pattern(40, 1)); }},
      {absl::StatusCode::kInvalidArgument, [](Stranger& s) { s.Greet(Stranger::Greeting(), {}); }},
      {absl::StatusCode::kFailedPrecondition,
       [](Stranger& s) {
         SameNodeGreeting said = Stranger::Greeting();
         said.layout_version = 7;
         s.Greet(said, {s.Memory()[1]});
       }},
  };
  for (const Case& c : cases) {
    const std::string where = NextAddress();
    const FileDescriptor listener = *ListenOnThisNode(where);
    const PeerId peer = *friend_.transport().Connect(where);
    Stranger stranger(*AcceptOnThisNode(listener.get()));
    c.say(stranger);
    ASSERT_TRUE(PollUntil([&] { return friend_.IsDown(peer); }));
    EXPECT_FALSE(friend_.IsUp(peer));
    EXPECT_EQ(friend_.WhyDown(peer).code(), c.expected) << friend_.WhyDown(peer);
    EXPECT_NE(friend_.WhyDown(peer).ToString().find(where), std::string::npos) << friend_.WhyDown(peer);
  }
  friend_.ExpectPeerOrder();
  ExpectServed();
}

TEST_F(ShmStrangers, ThatListenAndNeverGreetCanBeGivenUp) {
  const std::string where = NextAddress();
  const FileDescriptor listener = *ListenOnThisNode(where);
  const PeerId peer = *friend_.transport().Connect(where);
  for (int i = 0; i < 100; ++i) friend_.Poll();
  EXPECT_FALSE(friend_.IsUp(peer) || friend_.IsDown(peer));
  EXPECT_FALSE(friend_.transport().SendNote(peer, AsBytes("too early")).ok());
  friend_.transport().Close(peer);
  ASSERT_TRUE(PollUntil([&] { return friend_.IsDown(peer); }));
  EXPECT_TRUE(friend_.WhyDown(peer).ok());
}

TEST_F(ShmStrangers, ThatSayNothingDontKeepOthersOut) {
  constexpr size_t kMute = 600;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlim_t needed = 4 * kMute + 200;
  if (limit.rlim_max < needed) GTEST_SKIP() << "the limit of open files is " << limit.rlim_max;
  limit.rlim_cur = std::max(limit.rlim_cur, needed);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  std::vector<FileDescriptor> mute;
  for (size_t i = 0; i < kMute; ++i) {
    absl::StatusOr<FileDescriptor> socket = ConnectOnThisNode(address());
    ASSERT_TRUE(socket.ok()) << socket.status();
    mute.push_back(*std::move(socket));
    if (i % 50 == 0) node_.Poll();
  }
  ExpectServed();
  // The first were turned away for the last.
  EXPECT_FALSE(DrainBells(mute.front().get()));
  EXPECT_TRUE(DrainBells(mute.back().get()));
  // And they don't keep the loop awake.
  node_.Poll();
  EXPECT_TRUE(node_.transport().Arm());
  EXPECT_FALSE(WaitReadable({node_.transport().wake_fd()}, 0));
  mute.clear();
  ExpectServed();
  EXPECT_EQ(node_.Count(TransportEventKind::kPeerUp), 2u);
}

TEST_F(ShmStrangers, WithoutDescriptorsItWaitsAndDoesNotSpin) {
  const OpenFileLimit limit;
  const PeerId peer = *friend_.transport().Connect(address());
  limit.Leave(0);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  int wakes = 0;
  for (; std::chrono::steady_clock::now() < end; ++wakes) {
    node_.Poll();
    if (node_.transport().Arm()) WaitReadable({node_.transport().wake_fd()}, 10'000'000);
  }
  EXPECT_LT(wakes, 100) << "asks again and again for what there is not";
  EXPECT_FALSE(friend_.IsUp(peer) || friend_.IsDown(peer));
  limit.Restore();
  ASSERT_TRUE(PollUntil([&] { return friend_.IsUp(peer); })) << friend_.WhyDown(peer);
}

}  // namespace
}  // namespace shoal
