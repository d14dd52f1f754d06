// The Python module shoal._C. Policy (configuration, which rank runs what) is in the Python files beside it.
#include <pybind11/chrono.h>
#include <pybind11/functional.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include <algorithm>
#include <forward_list>
#include <map>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "pytorch/src/all_reduce_work.h"
#include "pytorch/src/group_options.h"
#include "pytorch/src/session.h"
#include "pytorch/src/shoal_backend.h"
#include "pytorch/src/shoal_library.h"
#include "pytorch/src/works.h"

namespace shoal::pytorch {
namespace {

using GilReleased = py::call_guard<py::gil_scoped_release>;

const ShoalLibrary* loaded_library = nullptr;  // set by load_library, under the GIL

const ShoalLibrary& Library() {
  if (loaded_library == nullptr) throw ShoalError(SHOAL_FAILED_PRECONDITION, "call load_library first");
  return *loaded_library;
}

py::dict StatisticsToDict(Session& session) {
  shoal_statistics statistics;
  std::vector<shoal_server_statistics> servers;
  {
    py::gil_scoped_release released;
    statistics = session.Statistics();
    servers = session.ServerStatistics();
  }
  py::dict result;
  result["ops_completed"] = statistics.ops_completed;
  result["ops_failed"] = statistics.ops_failed;
  result["bytes_pushed"] = statistics.bytes_pushed;
  result["bytes_pulled"] = statistics.bytes_pulled;
  result["chunks_pushed"] = statistics.chunks_pushed;
  result["refusals"] = statistics.refusals;
  result["op_time_ns_total"] = statistics.op_time_ns_total;
  result["map_epoch"] = statistics.map_epoch;
  result["shard_count"] = statistics.shard_count;
  result["server_count"] = statistics.server_count;
  result["waits_reported"] = statistics.waits_reported;
  result["bytes_on_node"] = statistics.bytes_on_node;
  result["result_square_sum"] = statistics.result_square_sum;
  py::list op_times;
  for (size_t i = 0; i < SHOAL_OP_TIME_BUCKETS; ++i) {
    py::dict bucket;
    bucket["at_most_ns"] = statistics.op_time_bounds_ns[i];
    bucket["ops"] = statistics.op_time_counts[i];
    op_times.append(std::move(bucket));
  }
  result["op_times"] = std::move(op_times);
  py::list shards;
  for (const shoal_server_statistics& server : servers) {
    py::dict shard;
    shard["name"] = std::string(server.name);
    shard["address"] = std::string(server.address);
    shard["bytes_pushed"] = server.bytes_pushed;
    shard["bytes_pulled"] = server.bytes_pulled;
    shard["transport"] = std::string(server.transport);
    shards.append(std::move(shard));
  }
  result["shards"] = std::move(shards);
  return result;
}

// Closing a backend waits for threads that may need the GIL, and its caller may hold it: torch when the last reference
// is dropped somewhere, or its binding of shutdown().
class PythonShoalBackend final : public ShoalBackend {
 public:
  // `split`: called with a store, ranks of this group, options and the device that this group is bound to, or None;
  // returns the backend of the group that the ranks make, or None on other ranks. `reconfigure`: None, or called with
  // this backend and what torch's reconfigure is given; the ranks are in place when it returns. `reconfigure_handle`:
  // of this process, then.
  template <typename... Arguments>
  explicit PythonShoalBackend(py::object split, py::object reconfigure, std::string reconfigure_handle,
                              Arguments&&... arguments)
      : ShoalBackend(std::forward<Arguments>(arguments)...),
        split_(std::move(split)),
        reconfigure_(std::move(reconfigure)),
        reconfigures_(!reconfigure_.is_none()),
        reconfigure_handle_(std::move(reconfigure_handle)) {}

  ~PythonShoalBackend() override {
    if (Py_IsInitialized() == 0) {
      split_.release();
      reconfigure_.release();
      return;
    }
    {
      py::gil_scoped_acquire gil;
      split_ = py::object();
      reconfigure_ = py::object();
    }
    try {
      ShutDownWithoutGil();
    } catch (const std::exception& error) {
      TORCH_WARN("shoal: closing a process group failed: ", error.what());
    }
  }

  void shutdown() override { ShutDownWithoutGil(); }

  // The ranks of a group that has others soon are no ranks to split.
  bool supportsSplitting() const override { return !reconfigures_; }

#ifdef C10D_BACKEND_HAS_RECONFIGURE
  bool supportsReconfigure() const override { return reconfigures_; }

  c10d::ReconfigureHandle get_reconfigure_handle() const override {
    if (!reconfigures_) return ShoalBackend::get_reconfigure_handle();
    MutexLock lock(handle_mutex_);
    return reconfigure_handle_;
  }

  void Rejoin(std::shared_ptr<Session> session, std::string reconfigure_handle) {
    const std::shared_ptr<Session> before = TakeSession(std::move(session));
    {
      MutexLock lock(handle_mutex_);
      reconfigure_handle_ = std::move(reconfigure_handle);
    }
    try {
      before->Close();
    } catch (const std::exception& error) {
      TORCH_WARN("shoal: leaving the job as the member that was given up failed: ", error.what());
    }
  }

  WorkPtr reconfigure(const c10d::ReconfigureOptions& opts) override {
    if (!reconfigures_) return ShoalBackend::reconfigure(opts);
    std::vector<std::string> handles;
    std::visit([&](const auto& given) { handles.assign(given.begin(), given.end()); }, opts.handles);
    const bool in_order = std::holds_alternative<std::vector<std::string>>(opts.handles);
    py::gil_scoped_acquire gil;
    reconfigure_(c10::intrusive_ptr<PythonShoalBackend>::reclaim_copy(this), opts.uuid, handles, in_order,
                 opts.timeout);
    return c10::make_intrusive<Works>(getRank(), std::vector<WorkPtr>());  // it is done
  }
#endif

  // torch calls it once for each device, and one backend serves all of them.
  BackendPtr split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                   const c10::intrusive_ptr<Options>& opts) override {
    py::gil_scoped_acquire gil;
    if (BackendPtr again = split_child_.lock(); again && opts->group_name == split_name_) return again;
    const py::object child = split_(store, ranks, opts, c10d::Backend::getBoundDeviceId());
    if (child.is_none()) return nullptr;
    auto backend = child.cast<BackendPtr>();
    split_name_ = opts->group_name;
    split_child_ = c10::weak_intrusive_ptr<c10d::Backend>(backend);
    return backend;
  }

 private:
  void ShutDownWithoutGil() {
    if (PyGILState_Check() == 0) {
      ShoalBackend::shutdown();
      return;
    }
    py::gil_scoped_release released;
    ShoalBackend::shutdown();
  }

  // All under the GIL.
  py::object split_;
  py::object reconfigure_;
  const bool reconfigures_;
  mutable Mutex handle_mutex_;
  std::string reconfigure_handle_ SHOAL_GUARDED_BY(handle_mutex_);
  std::string split_name_;
  c10::weak_intrusive_ptr<c10d::Backend> split_child_{BackendPtr()};
};

// Options of the library, by the names of their fields in shoal/worker.h: what a setting is called there is what Python
// calls it.
template <typename Options>
class OptionsFromPython {
 public:
  using Set = void (*)(OptionsFromPython&, const py::handle& value);

  struct Field {
    std::string_view name;
    Set set;
  };

  OptionsFromPython(std::span<const Field> fields, const py::kwargs& values) {
    for (const auto& [key, value] : values) {
      const auto name = py::cast<std::string>(key);
      const auto field = std::ranges::find(fields, name, &Field::name);
      if (field == fields.end()) throw py::type_error("shoal/worker.h has no option " + name);
      field->set(*this, value);
    }
  }
  OptionsFromPython(const OptionsFromPython&) = delete;
  OptionsFromPython& operator=(const OptionsFromPython&) = delete;

  template <auto kField>
  static void SetField(OptionsFromPython& self, const py::handle& value) {
    auto& field = self.options_.*kField;
    using Type = std::remove_reference_t<decltype(field)>;
    if constexpr (std::is_same_v<Type, const char*>) {
      field = self.texts_.emplace_front(py::cast<std::string>(value)).c_str();
    } else if constexpr (std::is_enum_v<Type>) {
      field = static_cast<Type>(py::cast<int>(value));
    } else {
      field = py::cast<Type>(value);
    }
  }

  const Options& options() const { return options_; }

 private:
  Options options_ = {};
  std::forward_list<std::string> texts_;
};

#define SHOAL_FIELD(options, field) \
  { #field, &OptionsFromPython < options> ::SetField < &options::field> }
#define SHOAL_WORKER_FIELD(field) SHOAL_FIELD(shoal_worker_options, field)
constexpr OptionsFromPython<shoal_worker_options>::Field kWorkerFields[] = {
    SHOAL_WORKER_FIELD(scheduler),
    SHOAL_WORKER_FIELD(job_name),
    SHOAL_WORKER_FIELD(rank),
    SHOAL_WORKER_FIELD(world_size),
    SHOAL_WORKER_FIELD(min_servers),
    SHOAL_WORKER_FIELD(timeout_ms),
    SHOAL_WORKER_FIELD(net_device),
    SHOAL_WORKER_FIELD(transports),
    SHOAL_WORKER_FIELD(network_only),
    SHOAL_WORKER_FIELD(colocation),
    SHOAL_WORKER_FIELD(checksums),
    SHOAL_WORKER_FIELD(without_servers),
    SHOAL_WORKER_FIELD(quiet),
    SHOAL_WORKER_FIELD(node_reduce),
    SHOAL_WORKER_FIELD(devices),
    SHOAL_WORKER_FIELD(local_rank),
    SHOAL_WORKER_FIELD(local_world_size),
    SHOAL_WORKER_FIELD(check_finite),
    SHOAL_WORKER_FIELD(flight_recorder),
    SHOAL_WORKER_FIELD(device_memory_bytes),
    SHOAL_WORKER_FIELD(min_ranks),
    SHOAL_WORKER_FIELD(identity),
    SHOAL_WORKER_FIELD(tls_cert),
    SHOAL_WORKER_FIELD(tls_key),
    SHOAL_WORKER_FIELD(tls_ca),
};
constexpr OptionsFromPython<shoal_scheduler_options>::Field kSchedulerFields[] = {
    SHOAL_FIELD(shoal_scheduler_options, listen),  SHOAL_FIELD(shoal_scheduler_options, port_buffer_bytes),
    SHOAL_FIELD(shoal_scheduler_options, encrypt), SHOAL_FIELD(shoal_scheduler_options, tls_cert),
    SHOAL_FIELD(shoal_scheduler_options, tls_key), SHOAL_FIELD(shoal_scheduler_options, tls_ca)};
#define SHOAL_SERVER_FIELD(field) SHOAL_FIELD(shoal_server_options, field)
constexpr OptionsFromPython<shoal_server_options>::Field kServerFields[] = {
    SHOAL_SERVER_FIELD(scheduler),       SHOAL_SERVER_FIELD(advertise),  SHOAL_SERVER_FIELD(io_threads),
    SHOAL_SERVER_FIELD(net_device),      SHOAL_SERVER_FIELD(transports), SHOAL_SERVER_FIELD(network_only),
    SHOAL_SERVER_FIELD(flight_recorder), SHOAL_SERVER_FIELD(timeout_ms), SHOAL_SERVER_FIELD(tls_cert),
    SHOAL_SERVER_FIELD(tls_key),         SHOAL_SERVER_FIELD(tls_ca)};
#define SHOAL_GROUP_FIELD(field) SHOAL_FIELD(shoal_group_options, field)
constexpr OptionsFromPython<shoal_group_options>::Field kGroupFields[] = {
    SHOAL_GROUP_FIELD(max_chunk_bytes), SHOAL_GROUP_FIELD(timeout_ms),    SHOAL_GROUP_FIELD(wire),
    SHOAL_GROUP_FIELD(node_reduce),     SHOAL_GROUP_FIELD(min_ranks),     SHOAL_GROUP_FIELD(scale_sums),
    SHOAL_GROUP_FIELD(whole_op),        SHOAL_GROUP_FIELD(error_feedback)};
#undef SHOAL_GROUP_FIELD
#undef SHOAL_SERVER_FIELD
#undef SHOAL_WORKER_FIELD
#undef SHOAL_FIELD

template <typename Options>
std::unique_ptr<Service> StartService(std::span<const typename OptionsFromPython<Options>::Field> fields,
                                      const py::kwargs& values) {
  const ShoalLibrary& library = Library();
  const OptionsFromPython<Options> options(fields, values);
  py::gil_scoped_release released;
  return Service::Start(library, options.options());
}

void DefineSession(py::module_& module) {
  py::class_<Group, std::shared_ptr<Group>>(module, "Group")
      .def(
          "sum_bytes",
          [](Group& group, const std::string& contribution, uint64_t timeout_ms) {
            std::string sum;
            {
              py::gil_scoped_release released;
              sum = group.SumBytes(contribution, timeout_ms);
            }
            return py::bytes(sum);
          },
          py::arg("contribution"), py::arg("timeout_ms"))
      .def("abort", &Group::Abort, py::arg("reason"), GilReleased());
  py::class_<Session, std::shared_ptr<Session>>(module, "Session")
      .def(py::init([](std::function<void()> on_closed, const py::kwargs& values) {
             const ShoalLibrary& library = Library();
             const OptionsFromPython<shoal_worker_options> options(kWorkerFields, values);
             py::gil_scoped_release released;
             return Session::Connect(library, options.options(), std::move(on_closed));
           }),
           py::kw_only(), py::arg("on_closed"))
      .def("open_device", &Session::OpenDevice, py::arg("device"), GilReleased())
      .def(
          "create_group",
          [](Session& session, const std::string& name, const std::vector<uint32_t>& ranks, const py::kwargs& values) {
            const OptionsFromPython<shoal_group_options> options(kGroupFields, values);
            py::gil_scoped_release released;
            return session.CreateGroup(name, ranks, options.options());
          },
          py::kw_only(), py::arg("name"), py::arg("ranks"))
      .def("close_group", &Session::CloseGroup, py::arg("group"), GilReleased())
      .def("close", &Session::Close, GilReleased())
      .def("give_up", &Session::GiveUp, py::arg("reason"), GilReleased())
      .def_property_readonly("forked", &Session::forked)
      .def_property_readonly("rank", &Session::rank)
      .def("statistics", &StatisticsToDict);
}

void DefineServices(py::module_& module) {
  py::class_<Service>(module, "Service")
      .def_property_readonly("address", &Service::address)
      .def_property_readonly("live_ranks", &Service::live_ranks)
      .def("stop", &Service::Stop, GilReleased());
  module.def(
      "describe_node",
      [](const std::string& net_device, const std::string& peer) {
        const ShoalLibrary& library = Library();
        shoal_node node = {};
        shoal_error error = {};
        shoal_code code = SHOAL_OK;
        {
          py::gil_scoped_release released;
          code = library.shoal_describe_node(net_device.c_str(), peer.c_str(), &node, &error);
        }
        if (code != SHOAL_UNAVAILABLE) library.Check(code, error, "can't find out where this process is");
        return std::make_tuple(std::string(node.identity), std::string(node.address), std::string(error.message));
      },
      py::kw_only(), py::arg("net_device"), py::arg("peer"));
  module.def("draw_keys", [] {
    const ShoalLibrary& library = Library();
    shoal_keys keys = {};
    shoal_error error = {};
    library.Check(library.shoal_draw_keys(&keys, &error), error, "can't draw keys");
    const auto files_of = [&keys](const shoal_key_pair& pair) {
      return std::map<std::string, std::string>{{"tls_cert", pair.cert}, {"tls_key", pair.key}, {"tls_ca", keys.ca}};
    };
    return std::map<std::string, std::map<std::string, std::string>>{{"scheduler", files_of(keys.scheduler)},
                                                                     {"server", files_of(keys.server)},
                                                                     {"worker", files_of(keys.worker)},
                                                                     {"operator", files_of(keys.operators)}};
  });
  module.def("start_scheduler",
             [](const py::kwargs& values) { return StartService<shoal_scheduler_options>(kSchedulerFields, values); });
  module.def("start_server",
             [](const py::kwargs& values) { return StartService<shoal_server_options>(kServerFields, values); });
}

void DefineOptions(py::module_& module) {
  using OptionsPtr = c10::intrusive_ptr<c10d::Backend::Options>;
  py::class_<GroupOptions, c10::intrusive_ptr<GroupOptions>, c10d::Backend::Options>(module, "GroupOptions")
      .def(py::init([](std::optional<std::string> wire, std::optional<std::string> node_reduce, OptionsPtr inner,
                       uint32_t min_ranks, bool scale_sums, bool whole_op, bool error_feedback) {
             return c10::make_intrusive<GroupOptions>(std::move(wire), std::move(node_reduce), std::move(inner),
                                                      min_ranks, scale_sums, whole_op, error_feedback);
           }),
           py::kw_only(), py::arg("wire"), py::arg("node_reduce"), py::arg("inner").none(true),
           py::arg("min_ranks") = 0, py::arg("scale_sums") = false, py::arg("whole_op") = false,
           py::arg("error_feedback") = false)
      .def_readonly("min_ranks", &GroupOptions::min_ranks)
      .def_readonly("scale_sums", &GroupOptions::scale_sums)
      .def_readonly("whole_op", &GroupOptions::whole_op)
      .def_readonly("error_feedback", &GroupOptions::error_feedback)
      .def_readonly("wire", &GroupOptions::wire)
      .def_readonly("node_reduce", &GroupOptions::node_reduce)
      .def_readonly("inner", &GroupOptions::inner);
}

void DefineWork(py::module_& module) {
  // What torch gives back is a c10d::Work, which pybind looks up by its type.
  py::class_<AllReduceWork, c10::intrusive_ptr<AllReduceWork>, c10d::Work>(module, "AllReduceWork")
      .def_property_readonly("contributors", [](const AllReduceWork& work) -> py::object {
        const std::optional<Contributors> found = work.contributors();
        if (!found) return py::none();
        return py::make_tuple(found->least, found->most);
      });
}

void DefineBackend(py::module_& module) {
  // The most derived class: what torch gives back is a c10d::Backend, which pybind looks up by its type.
  using Holder = c10::intrusive_ptr<PythonShoalBackend>;
  py::class_<PythonShoalBackend, Holder, c10d::Backend>(module, "ShoalBackend")
      .def(py::init([](int rank, int size, c10::intrusive_ptr<GroupOptions> options, std::shared_ptr<Session> session,
                       std::shared_ptr<Group> group, c10::intrusive_ptr<c10d::Backend> cpu_inner,
                       c10::intrusive_ptr<c10d::Backend> cuda_inner, bool blocking_wait, py::object split,
                       py::object reconfigure, std::string reconfigure_handle) {
             return c10::make_intrusive<PythonShoalBackend>(std::move(split), std::move(reconfigure),
                                                            std::move(reconfigure_handle), rank, size,
                                                            std::move(options), std::move(session), std::move(group),
                                                            std::move(cpu_inner), std::move(cuda_inner), blocking_wait);
           }),
           py::kw_only(), py::arg("rank"), py::arg("size"), py::arg("options"), py::arg("session").none(true),
           py::arg("group").none(true), py::arg("cpu_inner").none(true), py::arg("cuda_inner").none(true),
           py::arg("blocking_wait"), py::arg("split") = py::none(), py::arg("reconfigure") = py::none(),
           py::arg("reconfigure_handle") = "")
      .def("failure", &ShoalBackend::FailureText, GilReleased())
      .def("error_feedback", &ShoalBackend::ErrorFeedback, GilReleased())
      .def("add_error_feedback", &ShoalBackend::AddErrorFeedback, py::arg("values"), GilReleased())
#ifdef C10D_BACKEND_HAS_RECONFIGURE
      .def("rejoin", &PythonShoalBackend::Rejoin, py::arg("session"), py::arg("reconfigure_handle"), GilReleased())
      .def("end_roster", &ShoalBackend::EndRoster, GilReleased())
      .def("begin_roster", &ShoalBackend::BeginRoster, py::kw_only(), py::arg("rank"), py::arg("ranks_of_job"),
           py::arg("group").none(true), py::arg("cpu_inner"), py::arg("cuda_inner").none(true), GilReleased())
#endif
      // torch has ranks that are not in a new group take part in a split of NCCL's. A split of ours concerns nobody
      // else.
      .def(
          "perform_nocolor_split", [](PythonShoalBackend&, const c10::Device&) {}, py::arg("device"));
}

void DefineErrors(py::module_& module) {
  module.attr("_DistBackendError") = py::module_::import("torch.distributed").attr("DistBackendError");
  py::register_local_exception_translator([](std::exception_ptr exception) {
    try {
      if (exception) std::rethrow_exception(exception);
    } catch (const ShoalError& error) {
      const py::object type = py::module_::import("shoal._C").attr("_DistBackendError");
      const py::object raised = type(error.what());
      raised.attr("shoal_code") = static_cast<int>(error.code());
      PyErr_SetObject(type.ptr(), raised.ptr());
    }
  });
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  module.doc() = "Shoal's c10d backend";
  // The bases (c10d::Backend) must be known to pybind first.
  py::module_::import("torch");
  DefineErrors(module);
  DefineSession(module);
  DefineServices(module);
  DefineOptions(module);
  DefineWork(module);
  DefineBackend(module);
  module.def(
      "load_library", [](const std::string& path) { loaded_library = &LoadShoalLibrary(path); }, py::arg("path"));
  module.def("library_path", [] { return Library().path; });
  module.def("library_version", [] { return std::string(Library().shoal_version()); });
  module.attr("abi_version") = SHOAL_ABI_VERSION;
  module.attr("FAILED_PRECONDITION") = static_cast<int>(SHOAL_FAILED_PRECONDITION);
  module.attr("built_for_torch") = TORCH_VERSION;
}

}  // namespace shoal::pytorch
