// UCX's functions. The library is loaded when the first transport over RDMA is made, and never where data moves over
// sockets: a node without RDMA needs no UCX.
//
// Thread-safe.
#ifndef SHOAL_NET_UCX_UCX_API_H_
#define SHOAL_NET_UCX_UCX_API_H_

#include <ucp/api/ucp.h>

#include <string>

#include "absl/status/statusor.h"

namespace shoal {

struct UcxApi {
  // Loads libucp.so.0 the first time, and keeps it for the life of the process. NotFound: it is not there, or lacks a
  // function; the text says what to install.
  static absl::StatusOr<const UcxApi*> Load();

  // "1.13.1": of the library that runs, which need not be the one that this was compiled against.
  std::string Version() const;

  decltype(&::ucp_am_data_release) ucp_am_data_release = nullptr;
  decltype(&::ucp_am_recv_data_nbx) ucp_am_recv_data_nbx = nullptr;
  decltype(&::ucp_am_send_nbx) ucp_am_send_nbx = nullptr;
  decltype(&::ucp_cleanup) ucp_cleanup = nullptr;
  decltype(&::ucp_config_modify) ucp_config_modify = nullptr;
  decltype(&::ucp_config_read) ucp_config_read = nullptr;
  decltype(&::ucp_config_release) ucp_config_release = nullptr;
  decltype(&::ucp_context_print_info) ucp_context_print_info = nullptr;
  decltype(&::ucp_ep_close_nbx) ucp_ep_close_nbx = nullptr;
  decltype(&::ucp_ep_create) ucp_ep_create = nullptr;
  decltype(&::ucp_ep_print_info) ucp_ep_print_info = nullptr;
  decltype(&::ucp_get_version) ucp_get_version = nullptr;
  decltype(&::ucp_init_version) ucp_init_version = nullptr;
  decltype(&::ucp_mem_map) ucp_mem_map = nullptr;
  decltype(&::ucp_mem_unmap) ucp_mem_unmap = nullptr;
  decltype(&::ucp_request_free) ucp_request_free = nullptr;
  decltype(&::ucp_worker_arm) ucp_worker_arm = nullptr;
  decltype(&::ucp_worker_create) ucp_worker_create = nullptr;
  decltype(&::ucp_worker_destroy) ucp_worker_destroy = nullptr;
  decltype(&::ucp_worker_get_address) ucp_worker_get_address = nullptr;
  decltype(&::ucp_worker_get_efd) ucp_worker_get_efd = nullptr;
  decltype(&::ucp_worker_progress) ucp_worker_progress = nullptr;
  decltype(&::ucp_worker_query) ucp_worker_query = nullptr;
  decltype(&::ucp_worker_release_address) ucp_worker_release_address = nullptr;
  decltype(&::ucp_worker_set_am_recv_handler) ucp_worker_set_am_recv_handler = nullptr;
  decltype(&::ucs_status_string) ucs_status_string = nullptr;
};

// UCX reads some settings from the environment when it is loaded. These keep it from doing things that a program does
// not expect of a library: installing signal handlers for SIGSEGV and others, patching mmap and munmap, printing to
// standard output. Nothing breaks without them. What is set already is not changed. A main calls this first thing,
// while there is one thread.
void PrepareUcxEnvironment();

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_API_H_
