// A UCX context and worker with one owner: what a UcxTransport stands on, set up and torn down.
//
// Thread: one, which makes every call.
#ifndef SHOAL_NET_UCX_UCX_WORKER_H_
#define SHOAL_NET_UCX_UCX_WORKER_H_

#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/ucx/ucx_api.h"
#include "net/ucx/ucx_settings.h"
#include "net/ucx/ucx_transport.h"

namespace shoal {

class UcxWorker {
 public:
  // InvalidArgument: there is no such device or transport here; the text says which were asked for. FailedPrecondition:
  // too little memory may be locked. ResourceExhausted, Internal: UCX failed. `max_header_bytes` must be possible in
  // one message. Takes some milliseconds, with a region as long as it takes to bring the region's pages in (1 s for
  // some GiB). Reads UCX_... from the environment. `api` and `settings` outlive it.
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Make(const UcxApi& api, const UcxTransportOptions& options,
                                                         const UcxSettings& settings, size_t max_header_bytes);
  // Every endpoint must be closed by then.
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h worker() const { return worker_; }
  int event_fd() const { return event_fd_; }
  // By which others reach this worker.
  const std::vector<std::byte>& address() const { return address_; }
  // What UCX knows memory of the region by (UcxTransportOptions); nullptr: it has to make that known by itself.
  ucp_mem_h HandleOf(std::span<const std::byte> memory) const;
  // There is a region, and UCX has to register each payload in it all the same.
  bool RegistersEachPayload() const { return !region_.empty() && region_handle_ == nullptr; }
  // What UCX can use here, each "transport/device".
  const std::set<std::string>& transports() const { return transports_; }

 private:
  UcxWorker(const UcxApi& api, const UcxSettings& settings) : api_(api), settings_(settings) {}
  absl::Status MakeContext();
  absl::Status InitUcx(const std::vector<UcxSetting>& settings);
  absl::Status MakeWorker(size_t max_header_bytes);
  void RegisterRegion(std::span<std::byte> region);
  absl::Status NoSuchTransport() const;

  const UcxApi& api_;
  const UcxSettings& settings_;
  std::set<std::string> transports_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::vector<std::byte> address_;
  std::span<const std::byte> region_;
  ucp_mem_h region_handle_ = nullptr;  // null: region_ is not registered
};

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_WORKER_H_
