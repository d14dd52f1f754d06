// The open calls and streams, shared between gRPC's threads and the loop's thread.
//
// Threads: any. A call lives until gRPC is done with it; the thread that takes it out of the table finishes it, so it
// is finished exactly once.
#ifndef SHOAL_SCHEDULER_RPC_GRPC_CALLS_H_
#define SHOAL_SCHEDULER_RPC_GRPC_CALLS_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "process/mutex.h"
#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/rpc/control_host.h"
#include "scheduler/rpc/control_messages.h"
#include "scheduler/rpc/doorkeeper.h"

namespace shoal::scheduler {

inline constexpr size_t kMaxOpenCalls = 131072;
inline constexpr size_t kMaxOpenStreams = 65536;

// A unary call that waits for its reply.
class PendingCall {
 public:
  virtual ~PendingCall() = default;
  virtual void Complete(const absl::StatusOr<Response>& response) = 0;
};

// An open stream.
class OpenStream {
 public:
  virtual ~OpenStream() = default;
  virtual void Send(const SendWatch&) {}
  virtual void Send(const SendEvent&) {}
  // Sends what is queued, then ends the stream.
  virtual void Close(const absl::Status& status) = 0;
};

class GrpcCalls {
 public:
  // `doorkeeper`: null, or who asks callers for their identity; outlives this.
  explicit GrpcCalls(Doorkeeper* doorkeeper = nullptr) : doorkeeper_(doorkeeper) {}

  // Who makes a call. Not OK: refuse the caller with it at once.
  absl::StatusOr<CallOrigin> Admit(const grpc::ServerContextBase& context, absl::string_view method) const {
    return Doorkeeper::Admit(doorkeeper_, context, method);
  }
  // Takes a request in. Not OK: refuse the caller with it at once.
  absl::Status AddCall(std::shared_ptr<PendingCall> call, Request request, RequestHandle* handle,
                       CallOrigin origin = {});
  // The loop is to tell that the doorkeeper has refused a call. False: there is no room for it.
  bool AddRefusal(const CallFacts& call);
  // The handle's call, which the caller now has to finish; nullptr: it was taken already.
  std::shared_ptr<PendingCall> TakeCall(RequestHandle handle);
  // As TakeCall, and the loop is told that no caller waits any more.
  std::shared_ptr<PendingCall> CancelCall(RequestHandle handle);

  // `event` is given the new watcher's id.
  template <typename Opened>
  absl::Status AddStream(std::shared_ptr<OpenStream> stream, Opened event, WatcherId* watcher);
  std::shared_ptr<OpenStream> FindStream(WatcherId watcher);
  void StreamIsDone(WatcherId watcher);

  std::optional<SchedulerEvent> Poll();
  void SetWake(std::function<void()> wake);

  // Refuses new calls from now on and ends all open calls and streams.
  void CloseAll(const absl::Status& status);

 private:
  absl::Status CheckRoom() const SHOAL_REQUIRES(mutex_);
  void Push(SchedulerEvent event) SHOAL_REQUIRES(mutex_);

  Doorkeeper* const doorkeeper_;
  Mutex mutex_;
  std::deque<SchedulerEvent> queue_ SHOAL_GUARDED_BY(mutex_);
  std::map<RequestHandle, std::shared_ptr<PendingCall>> calls_ SHOAL_GUARDED_BY(mutex_);
  std::map<WatcherId, std::shared_ptr<OpenStream>> streams_ SHOAL_GUARDED_BY(mutex_);
  std::function<void()> wake_ SHOAL_GUARDED_BY(mutex_);
  absl::Status closed_ SHOAL_GUARDED_BY(mutex_);
  uint64_t next_number_ SHOAL_GUARDED_BY(mutex_) = 1;
};

// gRPC gets messages as bytes, and gives them so: what a caller sends is parsed when the doorkeeper has let him in.
template <typename Message>
grpc::Status ParseMessage(const grpc::ByteBuffer& bytes, Message* message) {
  grpc::ByteBuffer taken = bytes;  // shares them
  return grpc::SerializationTraits<Message>::Deserialize(&taken, message);
}
template <typename Message>
grpc::Status SerializeMessage(const Message& message, grpc::ByteBuffer* bytes) {
  bytes->Clear();
  bool own_buffer = false;
  return grpc::SerializationTraits<Message>::Serialize(message, bytes, &own_buffer);
}

// gRPC's side of a unary call with this response message.
template <typename Message>
class UnaryCall : public grpc::ServerUnaryReactor,
                  public PendingCall,
                  public std::enable_shared_from_this<UnaryCall<Message>> {
 public:
  UnaryCall(GrpcCalls* calls, grpc::ByteBuffer* answer) : calls_(calls), answer_(answer) {}

  void Begin(Request request, CallOrigin origin) {
    self_ = this->shared_from_this();
    const absl::Status status = calls_->AddCall(self_, std::move(request), &handle_, std::move(origin));
    if (!status.ok()) Finish(ToGrpcStatus(status));
  }

  void Complete(const absl::StatusOr<Response>& response) override {
    if (response.ok()) {
      Message message;
      std::visit([&message](const auto& value) { Fill(value, &message); }, *response);
      Finish(SerializeMessage(message, answer_));
    } else {
      Finish(ToGrpcStatus(response.status()));
    }
  }

 private:
  template <typename Value>
  static void Fill(const Value& value, Message* message) {
    if constexpr (requires { ToMessage(value, message); }) ToMessage(value, message);
  }

  void OnCancel() override {
    if (calls_->CancelCall(handle_) != nullptr) Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { self_.reset(); }

  GrpcCalls* const calls_;
  grpc::ByteBuffer* const answer_;
  RequestHandle handle_;
  std::shared_ptr<UnaryCall> self_;  // until gRPC is done
};

// gRPC's side of a stream: one write at a time, then the next message that the subclass has.
template <typename Message>
class StreamCall : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                   public OpenStream,
                   public std::enable_shared_from_this<StreamCall<Message>> {
 public:
  explicit StreamCall(GrpcCalls* calls) : calls_(calls) {}

  template <typename Opened>
  void Begin(Opened event) {
    self_ = this->shared_from_this();
    const absl::Status status = calls_->AddStream(self_, event, &watcher_);
    if (!status.ok()) Close(status);
  }

  void Close(const absl::Status& status) override {
    {
      const MutexLock guard(mutex_);
      if (!ending_.has_value()) ending_ = ToGrpcStatus(status);
    }
    Continue();
  }

 protected:
  // Moves the next message to send into `message`; false if there is none.
  virtual bool TakeNext(Message* message) SHOAL_REQUIRES(mutex_) = 0;

  // Starts a write or ends the stream, if that is due and nothing is under way.
  void Continue() {
    bool write = false;
    grpc::Status status;
    {
      const MutexLock guard(mutex_);
      if (writing_ || finished_) return;
      Message message;
      if (!cancelled_ && TakeNext(&message) && SerializeMessage(message, &bytes_).ok()) {
        writing_ = write = true;
      } else if (cancelled_ || ending_.has_value()) {
        finished_ = true;
        status = cancelled_ ? grpc::Status::CANCELLED : *ending_;
      } else {
        return;
      }
    }
    write ? this->StartWrite(&bytes_) : this->Finish(status);
  }

  Mutex mutex_;

 private:
  void OnWriteDone(bool ok) override {
    {
      const MutexLock guard(mutex_);
      writing_ = false;
      cancelled_ = cancelled_ || !ok;
    }
    Continue();
  }
  void OnCancel() override {
    {
      const MutexLock guard(mutex_);
      cancelled_ = true;
    }
    Continue();
  }
  void OnDone() override {
    calls_->StreamIsDone(watcher_);
    self_.reset();
  }

  GrpcCalls* const calls_;
  WatcherId watcher_;
  grpc::ByteBuffer bytes_;  // that are being written
  bool writing_ SHOAL_GUARDED_BY(mutex_) = false;
  bool cancelled_ SHOAL_GUARDED_BY(mutex_) = false;
  bool finished_ SHOAL_GUARDED_BY(mutex_) = false;
  std::optional<grpc::Status> ending_ SHOAL_GUARDED_BY(mutex_);
  std::shared_ptr<StreamCall> self_;  // until gRPC is done
};

class WatchStream : public StreamCall<v1::WatchResponse> {
 public:
  using StreamCall::StreamCall;
  void Send(const SendWatch& update) override;

 protected:
  bool TakeNext(v1::WatchResponse* message) override SHOAL_REQUIRES(mutex_);

 private:
  std::shared_ptr<const ShardMap> map_ SHOAL_GUARDED_BY(mutex_);  // newest that is not sent yet
  std::vector<RankLost> lost_ranks_ SHOAL_GUARDED_BY(mutex_);
  std::map<GroupId, GroupMap> groups_ SHOAL_GUARDED_BY(mutex_);           // likewise, the newest map of each
  std::optional<ColocationRequest> colocation_ SHOAL_GUARDED_BY(mutex_);  // likewise
};

class EventStream : public StreamCall<v1::Event> {
 public:
  using StreamCall::StreamCall;
  void Send(const SendEvent& event) override;

 protected:
  bool TakeNext(v1::Event* message) override SHOAL_REQUIRES(mutex_);

 private:
  std::deque<EventRecord> events_ SHOAL_GUARDED_BY(mutex_);
  bool too_slow_ SHOAL_GUARDED_BY(mutex_) = false;  // some were dropped, so no more may follow
};

template <typename Opened>
absl::Status GrpcCalls::AddStream(std::shared_ptr<OpenStream> stream, Opened event, WatcherId* watcher) {
  const MutexLock guard(mutex_);
  if (absl::Status status = CheckRoom(); !status.ok()) return status;
  if (streams_.size() >= kMaxOpenStreams) return absl::ResourceExhaustedError("too many streams are open");
  *watcher = WatcherId(next_number_++);
  event.watcher = *watcher;
  streams_[*watcher] = std::move(stream);
  Push(event);
  return absl::OkStatus();
}

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_RPC_GRPC_CALLS_H_
