// libshoal.so behind a table of functions, loaded at run time.
//
// The library is not linked: torch's libtorch_cpu exports google::protobuf symbols of its own, which would take the
// place of the library's if both were in the global scope. dlopen with RTLD_LOCAL keeps them apart, and an extension
// without the dependency can still be imported when the library is missing.
//
// Threads: Load from any thread; the table is immutable afterwards. Ownership: the library is never unloaded.
#ifndef SHOAL_PYTORCH_SRC_SHOAL_LIBRARY_H_
#define SHOAL_PYTORCH_SRC_SHOAL_LIBRARY_H_

#include <stdexcept>
#include <string>

#include "worker/include/shoal/worker.h"

namespace shoal::pytorch {

// An error of the library, with its message. Python sees torch.distributed.DistBackendError.
class ShoalError : public std::runtime_error {
 public:
  ShoalError(shoal_code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  shoal_code code() const { return code_; }

 private:
  shoal_code code_;
};

#define SHOAL_LIBRARY_FUNCTIONS(F)  \
  F(shoal_abi_version)              \
  F(shoal_version)                  \
  F(shoal_code_name)                \
  F(shoal_worker_connect)           \
  F(shoal_worker_rank)              \
  F(shoal_worker_give_up)           \
  F(shoal_worker_close)             \
  F(shoal_worker_open_device)       \
  F(shoal_group_create)             \
  F(shoal_group_abort)              \
  F(shoal_group_failure)            \
  F(shoal_group_read_feedback)      \
  F(shoal_group_add_feedback)       \
  F(shoal_group_close)              \
  F(shoal_group_takes_devices)      \
  F(shoal_all_reduce)               \
  F(shoal_op_wait)                  \
  F(shoal_op_done)                  \
  F(shoal_op_duration_ns)           \
  F(shoal_op_contributors)          \
  F(shoal_op_notify)                \
  F(shoal_op_wait_on_stream)        \
  F(shoal_op_release)               \
  F(shoal_next_completion)          \
  F(shoal_worker_statistics)        \
  F(shoal_worker_server_statistics) \
  F(shoal_describe_node)            \
  F(shoal_draw_keys)                \
  F(shoal_start_scheduler)          \
  F(shoal_start_server)             \
  F(shoal_service_address)          \
  F(shoal_service_live_ranks)       \
  F(shoal_service_stop)

struct ShoalLibrary {
#define SHOAL_DECLARE_FUNCTION(name) decltype(&::name) name = nullptr;
  SHOAL_LIBRARY_FUNCTIONS(SHOAL_DECLARE_FUNCTION)
#undef SHOAL_DECLARE_FUNCTION
  std::string path;

  // Throws ShoalError with the code's name, what was tried and the library's sentence unless `code` is SHOAL_OK.
  void Check(shoal_code code, const shoal_error& error, const std::string& what) const;
};

// Loads the library at `path` (the first call decides; a later call with another path throws ShoalError). Throws
// ShoalError when it can't be loaded or its ABI is not the one that this extension was built for.
const ShoalLibrary& LoadShoalLibrary(const std::string& path);

}  // namespace shoal::pytorch

#endif  // SHOAL_PYTORCH_SRC_SHOAL_LIBRARY_H_
