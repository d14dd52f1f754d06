// Where flight records (net/flight_recorder.h) go when something has failed: to files in one folder, and to whom the
// process sends them, by a thread of its own, so that a slow disk or network stops nobody.
//
// Thread: any.
#ifndef SHOAL_PROCESS_FLIGHT_FOLDER_H_
#define SHOAL_PROCESS_FLIGHT_FOLDER_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ids.h"
#include "core/now.h"
#include "process/mutex.h"

namespace shoal {

// Values of the options that name a folder; an empty one is kNoFlightFolder as well.
inline constexpr char kOwnFlightFolder[] = "auto";
inline constexpr char kNoFlightFolder[] = "off";

class FlightFolder {
 public:
  // Of one object of this class: many failures at a time say the same, and a disk is not to be filled.
  static constexpr size_t kMostFilesAnHour = 16;
  // In the folder that nobody named, by all processes of the user: older ones are removed.
  static constexpr size_t kMostFilesOfOwn = 256;
  // To send one record; and all that are left when the process ends.
  static constexpr uint64_t kSendPatienceMs = 2000;

  struct Record {
    std::string name;     // the file's begins so: what is no letter, digit or dot becomes a dash
    std::string failure;  // for the sentence that names the file: who failed, and why
    std::string text;
    // For who sends it: what failed, and where in this process.
    JobId job = {};
    GroupId group = {};
    uint32_t io_thread = 0;
    bool is_sent = true;  // false: only written
  };
  // Sends it, until `deadline_ns` at the latest. Returns a clause that says who has it; empty: nobody.
  using Send = std::function<std::string(const Record& record, uint64_t deadline_ns)>;

  // `choice`: kNoFlightFolder gives nullptr. kOwnFlightFolder: shoal-flights-UID in the temporary directory (TMPDIR,
  // otherwise /tmp); it is made with the first file, for this user alone, and where it can't be made the first failure
  // says so and nothing else is written. Otherwise a folder. `send` is called on the thread with each record, also with
  // one that could not be written. `report` likewise with a sentence for each file, or on what became of the record
  // instead. InvalidArgument: there is no such folder, or nothing can be written there. ResourceExhausted: the process
  // can't have another thread.
  static absl::StatusOr<std::unique_ptr<FlightFolder>> Start(const std::string& choice, Send send,
                                                             std::function<void(std::string sentence)> report);
  ~FlightFolder();  // writes and sends what is left
  FlightFolder(const FlightFolder&) = delete;
  FlightFolder& operator=(const FlightFolder&) = delete;

  // False: this hour's records are made. To be asked before one is, which takes a millisecond.
  bool HasRoom();
  // To a new file, whose name has process, time and number after that of the record. Where there is no room nothing
  // happens.
  void Save(Record record);

 private:
  struct File {
    std::string path;
    Record record;
  };

  FlightFolder(std::string folder, bool is_own, Send send, std::function<void(std::string)> report)
      : folder_(std::move(folder)), is_own_(is_own), send_(std::move(send)), report_(std::move(report)) {}
  bool HasRoomLocked() SHOAL_REQUIRES(mutex_);
  void Run();
  void WriteAndSend(const File& file);
  // An error ends a sentence: why there is no file. nullopt: there is no folder, which an earlier failure has said.
  std::optional<absl::Status> Write(const File& file);
  // As Send.
  std::string SendInTime(const Record& record);

  const std::string folder_;
  const bool is_own_;  // nobody named it: kOwnFlightFolder
  const Send send_;
  const std::function<void(std::string)> report_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<File> files_ SHOAL_GUARDED_BY(mutex_);
  uint64_t hour_began_ns_ SHOAL_GUARDED_BY(mutex_) = 0;
  size_t saved_in_hour_ SHOAL_GUARDED_BY(mutex_) = 0;
  uint64_t saved_ SHOAL_GUARDED_BY(mutex_) = 0;
  bool gave_up_ SHOAL_GUARDED_BY(mutex_) = false;              // the own folder can't be had
  uint64_t end_by_ns_ SHOAL_GUARDED_BY(mutex_) = kNoDeadline;  // set when it ends: nothing is sent after that
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_PROCESS_FLIGHT_FOLDER_H_
