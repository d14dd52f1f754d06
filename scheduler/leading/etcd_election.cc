#include "scheduler/leading/etcd_election.h"

#include <utility>

#include "core/now.h"
#include "process/clock.h"
#include "process/start_thread.h"
#include "scheduler/leading/lead_times.h"

namespace shoal::scheduler {

EtcdElection::EtcdElection(EtcdClient* client, const std::string& own_address, uint64_t lease_ttl_ms)
    : client_(client),
      own_address_(own_address),
      lease_ttl_ms_(lease_ttl_ms),
      leader_key_(client->target().prefix + "leader") {}

EtcdElection::~EtcdElection() { Resign(); }

absl::StatusOr<Standing> EtcdElection::Stand() {
  Resign();
  etcdserverpb::RangeRequest look;
  look.set_key(leader_key_);
  const absl::StatusOr<etcdserverpb::RangeResponse> seen = client_->Read(look, kElectionCallTimeoutMs);
  if (!seen.ok()) return seen.status();
  if (seen->kvs_size() > 0) {
    return Standing{.term = seen->kvs(0).create_revision(), .leader_address = seen->kvs(0).value()};
  }
  const uint64_t asked_ns = MonotonicNs();
  const absl::StatusOr<EtcdClient::Lease> lease = client_->GrantLease(lease_ttl_ms_, kElectionCallTimeoutMs);
  if (!lease.ok()) return lease.status();
  lease_ = lease->id;

  etcdserverpb::TxnRequest request;
  etcdserverpb::Compare* no_leader = request.add_compare();
  no_leader->set_target(etcdserverpb::Compare::CREATE);
  no_leader->set_key(leader_key_);
  no_leader->set_create_revision(0);
  etcdserverpb::PutRequest* put = request.add_success()->mutable_request_put();
  put->set_key(leader_key_);
  put->set_value(own_address_);
  put->set_lease(lease_);
  // The answer shows the key either way: an attempt whose answer was lost may have won.
  request.add_success()->mutable_request_range()->set_key(leader_key_);
  request.add_failure()->mutable_request_range()->set_key(leader_key_);
  const absl::StatusOr<etcdserverpb::TxnResponse> response = client_->Transact(request, kElectionCallTimeoutMs);
  if (!response.ok()) return response.status();
  const etcdserverpb::RangeResponse& found = response->responses(response->responses_size() - 1).response_range();
  if (found.kvs_size() == 0) return Standing{};
  const etcdserverpb::KeyValue& leader = found.kvs(0);
  Standing standing{
      .leads = leader.lease() == lease_, .term = leader.create_revision(), .leader_address = leader.value()};
  if (!standing.leads) {
    Resign();
    return standing;
  }
  {
    const MutexLock lock(mutex_);
    stop_keeping_ = false;
  }
  absl::StatusOr<std::thread> keeper =
      StartThread("shoal-lease", [this, id = lease_, ttl_ms = lease->ttl_ms] { KeepLease(id, ttl_ms); });
  if (!keeper.ok()) {
    Resign();
    return keeper.status();
  }
  keeper_ = *std::move(keeper);
  leads_until_ns_.store(LeadsUntilNs(asked_ns, lease->ttl_ms), std::memory_order_release);
  return standing;
}

void EtcdElection::KeepLease(int64_t lease, uint64_t ttl_ms) {
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (changed_.wait_for(lock, std::chrono::milliseconds(RenewPeriodMs(ttl_ms)),
                            [this]() SHOAL_REQUIRES(mutex_) { return stop_keeping_; }))
        return;
    }
    const uint64_t asked_ns = MonotonicNs();
    const absl::Status status = client_->RenewLease(lease, RenewTimeoutMs(ttl_ms));
    if (status.ok()) {
      leads_until_ns_.store(LeadsUntilNs(asked_ns, ttl_ms), std::memory_order_release);
    } else if (absl::IsNotFound(status)) {
      leads_until_ns_.store(0, std::memory_order_release);
      return;
    }
  }
}

void EtcdElection::StopKeeping() {
  {
    const MutexLock lock(mutex_);
    stop_keeping_ = true;
  }
  changed_.notify_all();
  if (keeper_.joinable()) keeper_.join();
}

void EtcdElection::Resign() {
  StopKeeping();
  leads_until_ns_.store(0, std::memory_order_release);
  // If etcd can't be reached the lease ends by itself.
  if (const int64_t lease = std::exchange(lease_, 0); lease != 0) {
    client_->RevokeLease(lease, kResignTimeoutMs).IgnoreError();
  }
}

}  // namespace shoal::scheduler
