// A UCX context, worker and listener with one owner: what a UcxTransport stands on, set up and torn down.
//
// Thread: one, which makes every call.
#ifndef SHOAL_NET_UCX_UCX_WORKER_H_
#define SHOAL_NET_UCX_UCX_WORKER_H_

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/ucx/ucx_transport.h"

namespace shoal {

class UcxWorker {
 public:
  // InvalidArgument: unknown device or transports; the text says which were asked for. Internal: UCX failed otherwise.
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Make(const UcxTransportOptions& options);
  // Every endpoint must be closed by then.
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  // InvalidArgument: `ip` is no address of this machine. AlreadyExists: the port is taken. `on_request` is called with
  // `argument` from ucp_worker_progress.
  absl::Status Listen(const std::string& ip, uint16_t port, ucp_listener_conn_callback_t on_request, void* argument);

  ucp_worker_h worker() const { return worker_; }
  ucp_listener_h listener() const { return listener_; }
  int event_fd() const { return event_fd_; }
  const std::string& listen_address() const { return listen_address_; }

 private:
  UcxWorker() = default;
  absl::Status MakeContext(const UcxTransportOptions& options);
  absl::Status MakeWorker();

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_listener_h listener_ = nullptr;
  int event_fd_ = -1;
  std::string listen_address_;
};

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_WORKER_H_
