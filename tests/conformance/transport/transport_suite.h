// The conformance suite of net/transport.h. It is compiled once (transport_suite of CMakeLists.txt); a test program
// links it and instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Name, TransportSuite, testing::Values(TransportKind{...}), TransportKindName);
//   INSTANTIATE_TEST_SUITE_P(Name, TransportWakeSuite, ...);   // not for simulated time
//   INSTANTIATE_TEST_SUITE_P(Name, TransportOfferSuite, ...);  // for transports between nodes
#ifndef SHOAL_TESTS_CONFORMANCE_TRANSPORT_TRANSPORT_SUITE_H_
#define SHOAL_TESTS_CONFORMANCE_TRANSPORT_TRANSPORT_SUITE_H_

#include "net/wake_up.h"
#include "tests/conformance/transport/transport_harness.h"

namespace shoal {

// For transports between nodes, which count what each peer has offered, and limit it.
class TransportOfferSuite : public TransportSuite {};

// For transports of real time: a simulated one has nobody to wake.
class TransportWakeSuite : public TransportSuite {
 protected:
  enum class Asleep : uint8_t { kOnWakeFd, kInSleep };

  // False: for longer than anything takes.
  static bool SleepBriefly(Transport& transport, Asleep how) {
    if (how == Asleep::kOnWakeFd) return WaitReadable({transport.wake_fd()}, kForeverNs);
    const auto start = std::chrono::steady_clock::now();
    transport.Sleep(kForeverNs, /*other_fd=*/-1);
    return std::chrono::steady_clock::now() - start < std::chrono::nanoseconds(kForeverNs);
  }

  // Polls `transport`, sleeping in between, until `on_event` returns true. False: slept for longer than anything takes.
  static bool RunAsleep(Transport& transport, Asleep how, const std::function<bool(const TransportEvent&)>& on_event,
                        int* sleeps) {
    for (;;) {
      for (const TransportEvent& event : transport.Poll()) {
        if (on_event(event)) return true;
      }
      if (!transport.Arm()) continue;
      ++*sleeps;
      if (!SleepBriefly(transport, how)) return false;
    }
  }

 private:
  static constexpr int64_t kForeverNs = 10'000'000'000;
};

// A program may leave out some of them.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransportSuite);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransportOfferSuite);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransportWakeSuite);

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_TRANSPORT_TRANSPORT_SUITE_H_
