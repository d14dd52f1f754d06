// A UCX context, worker and listener with one owner: what a UcxTransport stands on, set up and torn down.
// listener_gate.h decides which peers may reach the listener.
//
// Thread: one, which makes every call.
#ifndef SHOAL_NET_UCX_UCX_WORKER_H_
#define SHOAL_NET_UCX_UCX_WORKER_H_

#include <ucp/api/ucp.h>

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/ucx/ucx_settings.h"
#include "net/ucx/ucx_transport.h"
#include "process/socket_address.h"

namespace shoal {

class UcxWorker {
 public:
  // InvalidArgument: unknown device or transports, or none but TCP where TCP may not carry payload; the text says which
  // were asked for. Unavailable: none of the devices that were asked for has a link now, and nothing else is called
  // that. FailedPrecondition: too little memory may be locked for RDMA. ResourceExhausted, Internal: UCX failed.
  // `settings` outlive it. Takes some milliseconds, with RDMA and a region as long as it takes to bring the region's
  // pages in (1 s for some GiB). Reads UCX_... from the environment.
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Make(const UcxTransportOptions& options,
                                                         const UcxSettings& settings);
  // Every endpoint must be closed by then.
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  // Listens at a free port of UCX_TCP_PORT_RANGE (for firewalls) or, without that, of the kernel's choice; returns it.
  // ResourceExhausted: none is free. Internal and others: UCX failed. `on_request` is called with `argument` from
  // ucp_worker_progress.
  absl::StatusOr<SocketAddress> Listen(const std::string& ip, ucp_listener_conn_callback_t on_request, void* argument);

  // True: this address of the node is on a device that has a link now and had none when this was made. UCX looks for
  // devices once and takes those with a link, so only a new UcxWorker can use this one.
  bool IsOlderThanLinkOf(const SocketAddress& own_address) const;

  ucp_worker_h worker() const { return worker_; }
  ucp_listener_h listener() const { return listener_; }
  int event_fd() const { return event_fd_; }
  // What UCX knows memory of the region by (UcxTransportOptions); nullptr: it has to make that known by itself.
  ucp_mem_h HandleOf(std::span<const std::byte> memory) const;
  // There are a region and RDMA, and UCX has to register each payload in it all the same.
  bool RegistersEachPayload() const { return !region_.empty() && region_handle_ == nullptr; }
  // What UCX can use here, each "transport/device".
  const std::set<std::string>& transports() const { return transports_; }

 private:
  explicit UcxWorker(const UcxSettings& settings) : settings_(settings) {}
  absl::Status MakeContext(const UcxTransportOptions& options);
  absl::Status InitUcx(const UcxTransportOptions& options, const std::vector<UcxSetting>& settings);
  absl::Status CheckTransports() const;
  absl::Status MakeWorker();
  void RegisterRegion(std::span<std::byte> region);

  const UcxSettings& settings_;
  std::set<std::string> devices_;  // that had a link before and after UCX looked
  std::set<std::string> transports_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_listener_h listener_ = nullptr;
  int event_fd_ = -1;
  std::span<const std::byte> region_;  // with RDMA alone
  ucp_mem_h region_handle_ = nullptr;  // null: region_ is not registered
};

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_WORKER_H_
