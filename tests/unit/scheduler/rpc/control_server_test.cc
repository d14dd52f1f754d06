// What a scheduler's port is listened on with: the probes, and the time that newer releases of gRPC wait for answers.
#include "scheduler/rpc/control_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/impl/server_builder_plugin.h>

#include <map>
#include <memory>
#include <string>

#include "core/failure_detection.h"
#include "gtest/gtest.h"

namespace shoal::scheduler {
namespace {

// Of the newest server that was built.
std::map<std::string, int>& Arguments() {
  static std::map<std::string, int> arguments;
  return arguments;
}

// gRPC shows it what a server is built with.
class Witness : public grpc::ServerBuilderPlugin {
 public:
  static std::unique_ptr<grpc::ServerBuilderPlugin> Make() { return std::make_unique<Witness>(); }
  std::string name() override { return "witness"; }
  void InitServer(grpc::ServerInitializer* /*initializer*/) override {}
  void Finish(grpc::ServerInitializer* /*initializer*/) override {}
  void ChangeArguments(const std::string& /*name*/, void* /*value*/) override {}
  void UpdateChannelArguments(grpc::ChannelArguments* arguments) override {
    const grpc_channel_args all = arguments->c_channel_args();
    for (size_t i = 0; i < all.num_args; ++i) {
      if (all.args[i].type == GRPC_ARG_INTEGER) Arguments()[all.args[i].key] = all.args[i].value.integer;
    }
  }
};

struct Listening {
  std::unique_ptr<grpc::CallbackGenericService> service = std::make_unique<grpc::CallbackGenericService>();
  int port = 0;
  std::unique_ptr<grpc::Server> server;  // null: it can't listen there
};

Listening Listen(int port) {
  Listening listening;
  grpc::ServerBuilder builder;
  ListenOn("127.0.0.1:" + std::to_string(port), &builder, &listening.port, nullptr);
  builder.RegisterCallbackGenericService(listening.service.get());
  listening.server = builder.BuildAndStart();
  return listening;
}

TEST(ControlServer, APeerThatIsSilentIsNoticedInTimeByEveryReleaseOfGrpc) {
  grpc::ServerBuilder::InternalAddPluginFactory(&Witness::Make);
  const Listening listening = Listen(0);
  ASSERT_NE(listening.server, nullptr);
  EXPECT_NE(listening.port, 0);
  EXPECT_EQ(Arguments()["grpc.keepalive_time_ms"], static_cast<int>(kControlProbePeriodNs / kNsPerMs));
  EXPECT_EQ(Arguments()["grpc.keepalive_timeout_ms"], static_cast<int>(kControlProbeTimeoutNs / kNsPerMs));
  EXPECT_EQ(Arguments()["grpc.http2.ping_timeout_ms"], static_cast<int>(kControlProbeTimeoutNs / kNsPerMs));
  EXPECT_EQ(Arguments()["grpc.keepalive_permit_without_calls"], 1) << "also one without an open stream";
}

TEST(ControlServer, TwoDoNotShareAPort) {
  const Listening first = Listen(0);
  ASSERT_NE(first.server, nullptr);
  EXPECT_EQ(Listen(first.port).server, nullptr);
}

}  // namespace
}  // namespace shoal::scheduler
