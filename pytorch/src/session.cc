#include "pytorch/src/session.h"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <system_error>
#include <utility>

#include "process/mutex.h"

namespace shoal::pytorch {
namespace {

constexpr uint64_t kFetchTimeoutMs = 3600 * 1000;  // the call needs a timeout, but what it waits for has a deadline

// For as long as the process lives.
void Keep(std::unordered_map<uint64_t, Done> open) {
  static auto& mutex = *new Mutex;
  static auto& kept = *new std::vector<std::unordered_map<uint64_t, Done>>;
  MutexLock lock(mutex);
  kept.push_back(std::move(open));
}

std::string OrEmpty(const char* text) { return text == nullptr ? "" : text; }

}  // namespace

// ---- Session ----

std::shared_ptr<Session> Session::Connect(const ShoalLibrary& library, const shoal_worker_options& options,
                                          std::function<void()> on_closed, std::chrono::milliseconds others_end) {
  shoal_worker* worker = nullptr;
  shoal_error error = {};
  const std::string who = options.min_ranks > 0 ? "this process" : "rank " + std::to_string(options.rank);
  library.Check(
      library.shoal_worker_connect(&options, &worker, &error), error,
      who + " can't join job \"" + OrEmpty(options.job_name) + "\" at scheduler " + OrEmpty(options.scheduler));
  return std::shared_ptr<Session>(new Session(library, options, worker, others_end, std::move(on_closed)));
}

Session::Session(const ShoalLibrary& library, const shoal_worker_options& options, shoal_worker* worker,
                 std::chrono::milliseconds others_end, std::function<void()> on_closed)
    : library_(library),
      rank_(library.shoal_worker_rank(worker)),
      in_open_job_(options.min_ranks > 0),
      reduces_on_devices_(options.devices != SHOAL_DEVICES_NONE),
      checks_finite_(options.check_finite != 0),
      process_id_(getpid()),
      others_end_(others_end),
      on_closed_(std::move(on_closed)),
      worker_(worker) {}

Session::~Session() {
  if (forked()) {
    for (std::thread& thread : threads_) thread.detach();  // they exist in the parent only
    if (beside_.joinable()) beside_.detach();
    return;
  }
  try {
    Close();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shoal: leaving the job failed: %s\n", error.what());
  }
}

void Session::ThrowIfForked() const {
  if (forked()) {
    throw ShoalError(SHOAL_FAILED_PRECONDITION,
                     "this process was forked after init_process_group(\"shoal\"): collectives belong to the parent. "
                     "Start processes with \"spawn\", or call init_process_group in the child.");
  }
}

shoal_worker* Session::OpenWorker() {
  if (worker_ == nullptr) {
    throw ShoalError(SHOAL_FAILED_PRECONDITION, "the shoal session of this process is closed");
  }
  return worker_;
}

void Session::OpenDevice(uint32_t device) {
  shoal_error error = {};
  shoal_code code = SHOAL_OK;
  WithWorker([&](shoal_worker* worker) { code = library_.shoal_worker_open_device(worker, device, &error); });
  library_.Check(code, error, "can't use CUDA device " + std::to_string(device));
}

std::shared_ptr<Group> Session::CreateGroup(const std::string& name, const std::vector<uint32_t>& ranks,
                                            shoal_group_options options) {
  ThrowIfForked();
  shoal_worker* worker = nullptr;
  {
    MutexLock lock(mutex_);
    worker = OpenWorker();
  }
  options.name = name.c_str();
  options.ranks = ranks.empty() ? nullptr : ranks.data();
  options.rank_count = static_cast<uint32_t>(ranks.size());
  shoal_group* handle = nullptr;
  shoal_error error = {};
  library_.Check(library_.shoal_group_create(worker, &options, &handle, &error), error,
                 "can't create process group \"" + name + "\"");
  auto group = std::make_shared<Group>(shared_from_this(), handle, options.rank_count);
  MutexLock lock(mutex_);
  groups_.push_back(group);
  return group;
}

void Session::CloseGroup(const std::shared_ptr<Group>& group) {
  if (forked()) return;
  const std::string left_behind = group->Close();
  bool last = false;
  {
    MutexLock lock(mutex_);
    std::erase(groups_, group);
    last = groups_.empty() && !in_open_job_;
  }
  if (last) Close();
  if (!left_behind.empty()) throw ShoalError(SHOAL_DEADLINE_EXCEEDED, left_behind);
}

void Session::Close() {
  if (forked()) return;
  std::vector<std::shared_ptr<Group>> groups;
  std::thread beside;
  {
    MutexLock lock(mutex_);
    if (close_called_) return;
    close_called_ = true;
    groups.swap(groups_);
    beside.swap(beside_);
  }
  if (beside.joinable()) beside.join();
  std::string left_behind;
  for (const std::shared_ptr<Group>& group : groups) {
    if (const std::string of_group = group->Close(); left_behind.empty()) left_behind = of_group;
  }
  const std::string of_threads = EndThreads();
  if (left_behind.empty()) left_behind = of_threads;
  std::function<void()> on_closed;
  {
    MutexLock lock(mutex_);
    on_closed.swap(on_closed_);
  }
  if (on_closed) on_closed();
  if (!left_behind.empty()) throw ShoalError(SHOAL_DEADLINE_EXCEEDED, left_behind);
}

void Session::GiveUp(const std::string& reason) {
  WithWorker([&](shoal_worker* worker) { library_.shoal_worker_give_up(worker, reason.c_str()); });
}

void Session::RunBeside(const std::function<void()>& task) {
  std::thread before;
  {
    MutexLock lock(mutex_);
    before.swap(beside_);
  }
  if (before.joinable()) before.join();
  {
    MutexLock lock(mutex_);
    if (!close_called_ && !beside_.joinable()) {
      try {
        beside_ = std::thread(task);
        return;
      } catch (const std::system_error&) {
      }
    }
  }
  task();
}

std::string Session::EndThreads() {
  const auto until = std::chrono::steady_clock::now() + others_end_;
  shoal_worker* worker = nullptr;
  std::vector<std::thread> threads;
  std::string left_behind;
  {
    MutexLock lock(mutex_);
    // All groups are closed, so every completion is on its way. Fetch them all: a thread in shoal_next_completion must
    // not meet shoal_worker_close; nor must whoever reads statistics.
    const bool all_fetched = changed_.wait_until(
        lock, until, [&]() SHOAL_REQUIRES(mutex_) { return unfetched_ <= 0 && !fetching_ && users_ == 0; });
    closing_ = true;
    worker = std::exchange(worker_, nullptr);
    threads.swap(threads_);
    changed_.notify_all();
    if (!all_fetched) {
      worker = nullptr;  // it stays as long as the process, as does the memory that it may still write to
      Keep(std::exchange(open_, {}));
      left_behind = std::to_string(unfetched_) + " all-reduce(s) of closed groups have not ended; please report this";
    }
    // Close may have been called by a `done`.
    const size_t own = running_threads_.contains(std::this_thread::get_id()) ? 1 : 0;
    changed_.wait_until(lock, until, [&]() SHOAL_REQUIRES(mutex_) { return running_threads_.size() == own; });
    for (std::thread& thread : threads) {
      if (!running_threads_.contains(thread.get_id())) continue;
      if (thread.get_id() != std::this_thread::get_id() && left_behind.empty()) {
        left_behind = "a callback or hook of an all-reduce has not returned " + std::to_string(others_end_.count()) +
                      " ms after its group was closed";
      }
      thread.detach();
    }
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  library_.shoal_worker_close(worker);
  return left_behind;
}

bool Session::Notify(shoal_op* op, Done done) {
  MutexLock lock(mutex_);
  shoal_error error = {};
  if (worker_ == nullptr || (threads_.empty() && !AddThread(&error))) return false;
  const uint64_t user_data = next_user_data_++;
  if (library_.shoal_op_notify(op, user_data, &error) != SHOAL_OK) return false;
  open_.emplace(user_data, std::move(done));
  ++unfetched_;
  WakeFetcher();
  return true;
}

void Session::WakeFetcher() {
  if (closing_ || fetching_ || unfetched_ <= 0) return;
  // Without another thread, those that run callbacks now fetch afterwards.
  shoal_error error = {};
  if (idle_threads_ == 0 && !AddThread(&error)) return;
  changed_.notify_all();
}

bool Session::AddThread(shoal_error* error) {
  try {
    threads_.emplace_back([self = shared_from_this()] { self->RunThread(); });
    pthread_setname_np(threads_.back().native_handle(), "shoal-torch");
    running_threads_.insert(threads_.back().get_id());
    ++idle_threads_;
    return true;
  } catch (const std::system_error& failure) {
    *error = MakeError(SHOAL_INTERNAL,
                       std::string("no thread could be started that fetches completions: ") + failure.what());
    return false;
  }
}

void Session::RunThread() {
  FetchCompletions();
  MutexLock lock(mutex_);
  running_threads_.erase(std::this_thread::get_id());
  changed_.notify_all();
}

// Leader and followers: one thread waits in the library. With a completion in hand it lets another take its place, and
// then runs the callback, which may take long or wait for a later operation (a DDP hook that starts another
// all-reduce).
void Session::FetchCompletions() {
  MutexLock lock(mutex_);
  for (bool is_new = true;; is_new = false) {
    if (!is_new) ++idle_threads_;  // AddThread has counted it
    changed_.wait(lock, [&]() SHOAL_REQUIRES(mutex_) { return closing_ || (!fetching_ && unfetched_ > 0); });
    --idle_threads_;
    if (closing_) return;
    fetching_ = true;
    shoal_worker* const worker = worker_;
    lock.unlock();
    shoal_completion completion = {};
    const shoal_code code = library_.shoal_next_completion(worker, kFetchTimeoutMs, &completion);
    lock.lock();
    fetching_ = false;
    // All groups are closed before the worker is, so every completion comes. Where there was no memory for one, the
    // next call has it.
    if (code != SHOAL_OK) continue;
    --unfetched_;
    auto entry = open_.extract(completion.user_data);
    WakeFetcher();
    changed_.notify_all();
    if (entry.empty()) continue;
    lock.unlock();
    entry.mapped()(completion.result, completion.duration_ns);
    entry = {};  // the callback's memory (tensors) is freed without the lock
    lock.lock();
  }
}

void Session::WithWorker(const std::function<void(shoal_worker*)>& use) {
  ThrowIfForked();
  shoal_worker* worker = nullptr;
  {
    MutexLock lock(mutex_);
    worker = OpenWorker();
    ++users_;
  }
  use(worker);
  MutexLock lock(mutex_);
  --users_;
  changed_.notify_all();
}

shoal_statistics Session::Statistics() {
  shoal_statistics statistics = {};
  shoal_code code = SHOAL_OK;
  WithWorker([&](shoal_worker* worker) { code = library_.shoal_worker_statistics(worker, &statistics); });
  library_.Check(code, shoal_error{code, ""}, "can't read the worker's statistics");
  return statistics;
}

std::vector<shoal_server_statistics> Session::ServerStatistics() {
  std::vector<shoal_server_statistics> entries;
  WithWorker([&](shoal_worker* worker) {
    entries.resize(library_.shoal_worker_server_statistics(worker, nullptr, 0));
    const uint32_t count =
        library_.shoal_worker_server_statistics(worker, entries.data(), static_cast<uint32_t>(entries.size()));
    entries.resize(std::min<size_t>(entries.size(), count));
  });
  return entries;
}

// ---- Service ----

std::unique_ptr<Service> Service::Start(const ShoalLibrary& library, const shoal_scheduler_options& options) {
  shoal_service* service = nullptr;
  shoal_error error = {};
  library.Check(library.shoal_start_scheduler(&options, &service, &error), error,
                "can't start a scheduler in this process on " + OrEmpty(options.listen));
  return std::unique_ptr<Service>(new Service(library, service));
}

std::unique_ptr<Service> Service::Start(const ShoalLibrary& library, const shoal_server_options& options) {
  shoal_service* service = nullptr;
  shoal_error error = {};
  library.Check(library.shoal_start_server(&options, &service, &error), error,
                "can't start a server in this process on " + OrEmpty(options.advertise));
  return std::unique_ptr<Service>(new Service(library, service));
}

void Service::Stop() {
  if (service_ == nullptr || getpid() != process_id_) return;
  library_.shoal_service_stop(std::exchange(service_, nullptr));
}

}  // namespace shoal::pytorch
