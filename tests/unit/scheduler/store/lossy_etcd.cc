#include "tests/unit/scheduler/store/lossy_etcd.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal::scheduler {

LossyEtcd::LossyEtcd(const std::string& address)
    : etcd_(etcdserverpb::KV::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(static_cast<etcdserverpb::KV::Service*>(this));
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) std::abort();
  address_ = absl::StrCat("127.0.0.1:", port);
}

LossyEtcd::~LossyEtcd() {
  server_->Shutdown();
  server_->Wait();
}

void LossyEtcd::SetJudge(Judge judge) {
  const MutexLock lock(judging_);
  judge_ = std::move(judge);
}

void LossyEtcd::DoLate() {
  std::vector<etcdserverpb::TxnRequest> late;
  {
    const MutexLock lock(mutex_);
    late.swap(late_);
  }
  for (const etcdserverpb::TxnRequest& request : late) {
    etcdserverpb::TxnResponse response;
    if (!Do(request, &response).ok()) std::abort();
  }
}

LossyEtcd::Fate LossyEtcd::FateOf(const etcdserverpb::TxnRequest& request) {
  const MutexLock lock(judging_);
  return judge_ ? judge_(request) : Fate::kIsDone;
}

grpc::Status LossyEtcd::Do(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse* response) {
  grpc::ClientContext context;
  return etcd_->Txn(&context, request, response);
}

grpc::Status LossyEtcd::Range(grpc::ServerContext* /*context*/, const etcdserverpb::RangeRequest* request,
                              etcdserverpb::RangeResponse* response) {
  grpc::ClientContext context;
  return etcd_->Range(&context, *request, response);
}

grpc::Status LossyEtcd::Compact(grpc::ServerContext* /*context*/, const etcdserverpb::CompactionRequest* request,
                                etcdserverpb::CompactionResponse* response) {
  grpc::ClientContext context;
  return etcd_->Compact(&context, *request, response);
}

grpc::Status LossyEtcd::Txn(grpc::ServerContext* /*context*/, const etcdserverpb::TxnRequest* request,
                            etcdserverpb::TxnResponse* response) {
  const Fate fate = FateOf(*request);
  switch (fate) {
    case Fate::kIsDone:
      return Do(*request, response);
    case Fate::kIsLost:
      return grpc::Status(grpc::StatusCode::INTERNAL, "lost");
    case Fate::kIsDoneUnheard:
      if (const grpc::Status done = Do(*request, response); !done.ok()) return done;
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "no answer");
    case Fate::kIsLate:
    case Fate::kIsLateUnheard: {
      const MutexLock lock(mutex_);
      late_.push_back(*request);
      return fate == Fate::kIsLate ? grpc::Status(grpc::StatusCode::INTERNAL, "given up")
                                   : grpc::Status(grpc::StatusCode::UNAVAILABLE, "no answer");
    }
  }
  std::abort();
}

}  // namespace shoal::scheduler
