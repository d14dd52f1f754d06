#include "tests/conformance/store/etcd_process.h"

#include <arpa/inet.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/store/etcd_client.h"

namespace shoal::scheduler {
namespace {

constexpr uint64_t kPatienceMs = 30'000;

// Two that are free a moment ago: etcd can't choose its own.
std::vector<int> FreePorts() {
  std::vector<int> sockets, ports;
  for (int i = 0; i < 2; ++i) {
    sockets.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    if (bind(sockets.back(), reinterpret_cast<sockaddr*>(&address), length) != 0) std::abort();
    getsockname(sockets.back(), reinterpret_cast<sockaddr*>(&address), &length);
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int each : sockets) close(each);
  return ports;
}

}  // namespace

EtcdProcess::EtcdProcess(const std::string& folder) {
  const std::vector<int> ports = FreePorts();
  address_ = absl::StrCat("127.0.0.1:", ports[0]);
  const std::string client = absl::StrCat("http://", address_);
  const std::string peer = absl::StrCat("http://127.0.0.1:", ports[1]);
  std::vector<std::string> command = {"etcd", "--name", "one", "--log-level", "error", "--unsafe-no-fsync"};
  for (const auto& [flag, value] :
       std::vector<std::pair<std::string, std::string>>{{"--data-dir", folder + "/etcd"},
                                                        {"--listen-client-urls", client},
                                                        {"--advertise-client-urls", client},
                                                        {"--listen-peer-urls", peer},
                                                        {"--initial-advertise-peer-urls", peer},
                                                        {"--initial-cluster", "one=" + peer}}) {
    command.push_back(flag);
    command.push_back(value);
  }
  std::vector<char*> arguments;
  for (std::string& each : command) arguments.push_back(each.data());
  arguments.push_back(nullptr);
  process_ = fork();
  if (process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvp("etcd", arguments.data());
    std::perror("etcd can't be started; make setup installs etcd-server");
    _exit(127);
  }
  EtcdClient probe(EtcdTarget{.endpoints = {address_}, .prefix = "/"});
  etcdserverpb::RangeRequest nothing;
  nothing.set_key("x");
  if (const auto answer = probe.Read(nothing, kPatienceMs); !answer.ok()) {
    std::fprintf(stderr, "%s\n", std::string(answer.status().message()).c_str());
    std::abort();
  }
}

EtcdProcess::~EtcdProcess() {
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void EtcdProcess::Stop() const { kill(process_, SIGSTOP); }

void EtcdProcess::GoOn() const { kill(process_, SIGCONT); }

void EtcdProcess::SetFull(bool full) const {
  // etcdserverpb.AlarmRequest{action: full ? ACTIVATE : DEACTIVATE, alarm: NOSPACE}, a message that Shoal never sends.
  const std::string request = {0x08, full ? '\1' : '\2', 0x18, 1};
  const grpc::Slice slice(request);
  const grpc::ByteBuffer bytes(&slice, 1);
  grpc::GenericStub stub(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, "/etcdserverpb.Maintenance/Alarm", bytes, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (status.ok()) return;
  std::fprintf(stderr, "etcd takes no alarm: %s\n", status.error_message().c_str());
  std::abort();
}

}  // namespace shoal::scheduler
