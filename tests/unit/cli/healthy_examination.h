// What the doctor sees where all is well, for tests that change one thing of it.
#ifndef SHOAL_TESTS_UNIT_CLI_HEALTHY_EXAMINATION_H_
#define SHOAL_TESTS_UNIT_CLI_HEALTHY_EXAMINATION_H_

#include <string>

#include "cli/doctor.h"
#include "core/version.h"
#include "gmock/gmock.h"

namespace shoal::cli {

inline Way GoodWay(const std::string& address) {
  return {.address = address,
          .outcome = Way::Outcome::kReached,
          .round_trip_us = 120,
          .congestion_control = "cubic",
          .device = "eth0",
          .device_mtu = 9000,
          .device_mbit = 25'000,
          .segment_bytes = 8948,
          .offered_bytes = 8948};
}

// A cluster with one server of two I/O threads, where everything is as it should be.
inline Examination Healthy() {
  Examination seen;
  seen.cluster.set_software_version(kSoftwareVersion);
  seen.cluster.set_now_unix_ms(1'000'003);
  seen.asked_unix_ms = 1'000'000;
  seen.answered_unix_ms = 1'000'004;
  v1::ServerStatus* const server = seen.servers.add_servers();
  server->set_name("shoal-0");
  server->set_node("rack1");
  server->set_state("live");
  server->set_software_version(kSoftwareVersion);
  server->set_transports("sockets: tcp (not connected), 0 of 0 peers on the same node");
  server->add_addresses("10.0.0.11:4567");
  server->add_addresses("10.0.0.11:4568");
  seen.ways = {GoodWay("10.0.0.11:4567"), GoodWay("10.0.0.11:4568")};
  seen.node = {.open_files = 65536};
  return seen;
}

inline auto Is(const std::string& check, Verdict verdict, const std::string& text, const std::string& fix = "") {
  return ::testing::AllOf(::testing::Field("check", &Finding::check, check),
                          ::testing::Field("verdict", &Finding::verdict, verdict),
                          ::testing::Field("text", &Finding::text, ::testing::HasSubstr(text)),
                          ::testing::Field("fix", &Finding::fix, ::testing::HasSubstr(fix)));
}

}  // namespace shoal::cli

#endif  // SHOAL_TESTS_UNIT_CLI_HEALTHY_EXAMINATION_H_
