// Wrong calls of the C ABI are refused by value, with a message that says what was wrong. Nothing here needs a network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "shoal/worker.h"

namespace {

using testing::HasSubstr;

shoal_worker_options GoodWorkerOptions() {
  shoal_worker_options options = {
      .scheduler = "127.0.0.1:1", .job_name = "job", .rank = 0, .world_size = 2, .timeout_ms = 1};
  return options;
}

std::string ConnectError(const shoal_worker_options* options) {
  shoal_worker* worker = nullptr;
  shoal_error error = {};
  EXPECT_EQ(shoal_worker_connect(options, &worker, &error), SHOAL_INVALID_ARGUMENT);
  EXPECT_EQ(error.code, SHOAL_INVALID_ARGUMENT);
  EXPECT_EQ(worker, nullptr);
  return error.message;
}

TEST(WorkerArgumentsTest, VersionIsTheHeaders) {
  EXPECT_EQ(shoal_abi_version(), uint32_t{SHOAL_ABI_VERSION});
  EXPECT_STRNE(shoal_version(), "");
}

TEST(WorkerArgumentsTest, ANodeIsDescribedAlsoWhereNothingSaysItsAddress) {
  shoal_error error = {};
  shoal_node node = {};
  EXPECT_EQ(shoal_describe_node("lo", nullptr, nullptr, &error), SHOAL_INVALID_ARGUMENT);
  ASSERT_EQ(shoal_describe_node("lo", nullptr, &node, &error), SHOAL_OK) << error.message;
  EXPECT_STREQ(node.address, "127.0.0.1");
  const std::string identity = node.identity;
  EXPECT_NE(identity, "");
  node = {};
  EXPECT_EQ(shoal_describe_node(nullptr, "no.such.name.invalid:1", &node, &error), SHOAL_UNAVAILABLE);
  EXPECT_THAT(error.message, HasSubstr("cannot resolve the name no.such.name.invalid"));
  EXPECT_EQ(node.identity, identity);
  EXPECT_STREQ(node.address, "");
  EXPECT_EQ(shoal_service_live_ranks(nullptr), UINT32_MAX);
}

TEST(WorkerArgumentsTest, CodesHaveNames) {
  EXPECT_STREQ(shoal_code_name(SHOAL_OK), "OK");
  EXPECT_STREQ(shoal_code_name(SHOAL_DEADLINE_EXCEEDED), "DEADLINE_EXCEEDED");
  EXPECT_STREQ(shoal_code_name(SHOAL_UNAUTHENTICATED), "UNAUTHENTICATED");
  EXPECT_STREQ(shoal_code_name(static_cast<shoal_code>(17)), "no shoal_code");
}

TEST(WorkerArgumentsTest, ConnectNamesTheWrongOption) {
  EXPECT_THAT(ConnectError(nullptr), HasSubstr("options is NULL"));
  shoal_worker_options options = GoodWorkerOptions();
  options.scheduler = nullptr;
  EXPECT_THAT(ConnectError(&options), HasSubstr("scheduler is NULL"));
  for (const char* address : {"localhost", "localhost:", ":7070", "localhost:0", "localhost:65536", "http://a:1"}) {
    options.scheduler = address;
    EXPECT_THAT(ConnectError(&options), HasSubstr("HOST:PORT")) << address;
  }
  options = GoodWorkerOptions();
  options.job_name = "";
  EXPECT_THAT(ConnectError(&options), HasSubstr("job_name is empty"));
  const std::string long_name(201, 'x');
  options.job_name = long_name.c_str();
  EXPECT_THAT(ConnectError(&options), HasSubstr("more than 200 characters"));
  options = GoodWorkerOptions();
  options.rank = 2;
  EXPECT_THAT(ConnectError(&options), HasSubstr("rank 2 is not below the world size 2"));
  options.world_size = 0;
  EXPECT_THAT(ConnectError(&options), HasSubstr("world size 0"));
  options = GoodWorkerOptions();
  for (const int unknown : {3, -1}) {
    std::memcpy(&options.colocation, &unknown, sizeof(unknown));
    EXPECT_THAT(ConnectError(&options), HasSubstr("options->colocation is " + std::to_string(unknown)));
  }
  options = GoodWorkerOptions();
  for (const int unknown : {5, -1}) {
    std::memcpy(&options.node_reduce, &unknown, sizeof(unknown));
    EXPECT_THAT(ConnectError(&options), HasSubstr("options->node_reduce is " + std::to_string(unknown)));
  }
}

TEST(WorkerArgumentsTest, ConnectNeedsAPlaceForTheHandleAndNoPlaceForTheError) {
  const shoal_worker_options options = GoodWorkerOptions();
  EXPECT_EQ(shoal_worker_connect(&options, nullptr, nullptr), SHOAL_INVALID_ARGUMENT);
}

TEST(WorkerArgumentsTest, UnknownTransportIsNamedBeforeAnybodyIsAsked) {
  shoal_worker_options options = GoodWorkerOptions();
  options.transports = "carrier-pigeon";
  EXPECT_THAT(ConnectError(&options), HasSubstr("carrier-pigeon"));
}

TEST(WorkerArgumentsTest, FunctionsTakeNullHandles) {
  shoal_error error = {};
  shoal_group_options group_options = {.name = "g"};
  shoal_group* group = nullptr;
  EXPECT_EQ(shoal_group_create(nullptr, &group_options, &group, &error), SHOAL_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("worker is NULL"));
  const int unknown_wire = 6;
  std::memcpy(&group_options.wire, &unknown_wire, sizeof(unknown_wire));
  EXPECT_EQ(shoal_group_create(nullptr, &group_options, &group, &error), SHOAL_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("options->wire is 6"));
  group_options.wire = SHOAL_WIRE_NONE;
  const int unknown_choice = 5;
  std::memcpy(&group_options.node_reduce, &unknown_choice, sizeof(unknown_choice));
  EXPECT_EQ(shoal_group_create(nullptr, &group_options, &group, &error), SHOAL_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("options->node_reduce is 5; see shoal_node_reduce"));
  shoal_plan plan = {};
  EXPECT_EQ(shoal_group_plan(nullptr, 1, SHOAL_FLOAT32, &plan, &error), SHOAL_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("group is NULL"));
  shoal_op* op = nullptr;
  EXPECT_EQ(shoal_all_reduce(nullptr, nullptr, 0, nullptr, &op, &error), SHOAL_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("group is NULL"));
  EXPECT_EQ(shoal_op_wait(nullptr, 0, &error), SHOAL_INVALID_ARGUMENT);
  EXPECT_EQ(shoal_op_done(nullptr), 0);
  EXPECT_EQ(shoal_op_notify(nullptr, 0, &error), SHOAL_INVALID_ARGUMENT);
  EXPECT_EQ(shoal_op_duration_ns(nullptr), 0u);
  shoal_completion completion = {};
  EXPECT_EQ(shoal_next_completion(nullptr, 0, &completion), SHOAL_INVALID_ARGUMENT);
  shoal_statistics statistics = {};
  EXPECT_EQ(shoal_worker_statistics(nullptr, &statistics), SHOAL_INVALID_ARGUMENT);
  EXPECT_EQ(shoal_worker_server_statistics(nullptr, nullptr, 0), 0u);
  EXPECT_EQ(shoal_group_rank(nullptr), 0u);
  EXPECT_EQ(shoal_group_size(nullptr), 0u);
  EXPECT_STREQ(shoal_service_address(nullptr), "");
  EXPECT_EQ(shoal_group_failure(nullptr, &error), SHOAL_INVALID_ARGUMENT);
  shoal_group_abort(nullptr, nullptr);
  shoal_group_close(nullptr);
  shoal_op_release(nullptr);
  shoal_worker_close(nullptr);
  shoal_service_stop(nullptr);
}

TEST(WorkerArgumentsTest, ServicesNameTheWrongOption) {
  shoal_error error = {};
  shoal_service* service = nullptr;
  EXPECT_EQ(shoal_start_scheduler(nullptr, &service, &error), SHOAL_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("options is NULL"));
  shoal_scheduler_options scheduler_options = {};
  EXPECT_EQ(shoal_start_scheduler(&scheduler_options, &service, &error), SHOAL_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("listen is NULL"));
  scheduler_options.listen = "nonsense";
  EXPECT_EQ(shoal_start_scheduler(&scheduler_options, &service, &error), SHOAL_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("nonsense"));
  scheduler_options.listen = "127.0.0.1:0";
  scheduler_options.port_buffer_bytes = (uint64_t{1} << 30) + 1;
  EXPECT_EQ(shoal_start_scheduler(&scheduler_options, &service, &error), SHOAL_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("port_buffer_bytes is 1073741825"));
  scheduler_options = {};
  scheduler_options.listen = "0.0.0.0:0";
  EXPECT_EQ(shoal_start_scheduler(&scheduler_options, &service, &error), SHOAL_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("other nodes may reach"));
  EXPECT_EQ(shoal_draw_keys(nullptr, &error), SHOAL_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("keys is NULL"));
  shoal_server_options options = {};
  EXPECT_EQ(shoal_start_server(&options, &service, &error), SHOAL_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("scheduler is NULL"));
  options.scheduler = "127.0.0.1:1";
  EXPECT_EQ(shoal_start_server(&options, &service, &error), SHOAL_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("advertise is NULL"));
  EXPECT_EQ(service, nullptr);
}

}  // namespace
