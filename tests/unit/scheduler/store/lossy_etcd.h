// An etcd as it looks from behind a network in which transactions get lost: passes all on to a real one, but for what
// the test decides about.
//
// Threads: all functions from any; `judge` is called from gRPC's, one call at a time.
#ifndef SHOAL_TESTS_UNIT_SCHEDULER_STORE_LOSSY_ETCD_H_
#define SHOAL_TESTS_UNIT_SCHEDULER_STORE_LOSSY_ETCD_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "etcd/v3.grpc.pb.h"
#include "process/mutex.h"

namespace shoal::scheduler {

class LossyEtcd final : private etcdserverpb::KV::Service {
 public:
  enum class Fate {
    kIsDone,
    kIsLost,         // the caller hears so
    kIsDoneUnheard,  // the caller hears that there was no answer, and may ask again
    kIsLate,         // the caller hears that it was given up; DoLate does it
    kIsLateUnheard,  // the caller hears that there was no answer, and may ask again; DoLate does it
  };
  using Judge = std::function<Fate(const etcdserverpb::TxnRequest& request)>;

  // `address` of the real one.
  explicit LossyEtcd(const std::string& address);
  ~LossyEtcd() override;

  const std::string& address() const { return address_; }
  // Of each transaction; nullptr: all are done. The one before is asked no more, and what it wrote can be read.
  void SetJudge(Judge judge);
  void DoLate();

 private:
  grpc::Status Range(grpc::ServerContext* context, const etcdserverpb::RangeRequest* request,
                     etcdserverpb::RangeResponse* response) override;
  grpc::Status Txn(grpc::ServerContext* context, const etcdserverpb::TxnRequest* request,
                   etcdserverpb::TxnResponse* response) override;
  grpc::Status Compact(grpc::ServerContext* context, const etcdserverpb::CompactionRequest* request,
                       etcdserverpb::CompactionResponse* response) override;
  Fate FateOf(const etcdserverpb::TxnRequest& request);
  grpc::Status Do(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse* response);

  const std::unique_ptr<etcdserverpb::KV::Stub> etcd_;
  Mutex judging_;
  Judge judge_ SHOAL_GUARDED_BY(judging_);  // as is its call
  Mutex mutex_;
  std::vector<etcdserverpb::TxnRequest> late_ SHOAL_GUARDED_BY(mutex_);
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_UNIT_SCHEDULER_STORE_LOSSY_ETCD_H_
