// The UcxWorkers that connections stand on: one, unless a device came up later (UcxWorker::IsOlderThanLinkOf).
#include <set>
#include <utility>

#include "net/ucx/ucx_connections.h"

namespace shoal {
namespace {

constexpr int kMostFinishingCalls = 1000;

}  // namespace

absl::Status UcxTransport::AddWorker() {
  absl::StatusOr<std::unique_ptr<UcxWorker>> made = UcxWorker::Make(options_, ucx_settings_);
  if (!made.ok()) return made.status();
  if (absl::Status status = RegisterHandlers(**made); !status.ok()) return status;
  if (absl::Status status = sockets_->Watch((*made)->event_fd()); !status.ok()) return status;
  workers_.push_back(*std::move(made));
  return absl::OkStatus();
}

absl::StatusOr<UcxWorker*> UcxTransport::WorkerFor(const SocketAddress& own_address) {
  if (workers_.empty() || workers_.back()->IsOlderThanLinkOf(own_address)) {
    if (absl::Status status = AddWorker(); !status.ok()) return status;
  }
  return workers_.back().get();
}

void UcxTransport::DropUnusedWorkers() {
  if (!workers_may_be_unused_) return;
  workers_may_be_unused_ = false;
  if (workers_.size() < 2) return;
  std::set<const UcxWorker*> used = {workers_.back().get(), listening_};
  for (const auto& [id, peer] : peers_) used.insert(peer->ucx);
  for (const auto& [id, loan] : loans_) used.insert(loan.ucx);
  std::erase_if(workers_, [&](const std::unique_ptr<UcxWorker>& ucx) {
    if (used.contains(ucx.get())) return false;
    FinishClosing(*ucx);
    sockets_->Unwatch(ucx->event_fd());
    return true;
  });
}

// UCX ends what belonged to closed connections a little later, and complains if its worker goes before.
void UcxTransport::FinishClosing(const UcxWorker& ucx) {
  for (int i = 0; i < kMostFinishingCalls && ucp_worker_progress(ucx.worker()) != 0; ++i) {
  }
}

bool UcxTransport::ProgressWorkers() {
  bool found = false;
  for (const std::unique_ptr<UcxWorker>& ucx : workers_) found |= ucp_worker_progress(ucx->worker()) != 0;
  return found;
}

}  // namespace shoal
