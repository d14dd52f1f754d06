// Where flight records (net/flight_recorder.h) are written when something has failed: files in one folder, by a thread
// of its own, so that a slow disk stops nobody.
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
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"

namespace shoal {

class FlightFolder {
 public:
  // Of one object of this class: many failures at a time say the same, and a disk is not to be filled.
  static constexpr size_t kMostFilesAnHour = 16;

  // `report` is called on the thread with a sentence for each file, also for one that could not be written.
  // InvalidArgument: there is no such folder, or nothing can be written there. ResourceExhausted: the process can't
  // have another thread.
  static absl::StatusOr<std::unique_ptr<FlightFolder>> Start(const std::string& folder,
                                                             std::function<void(std::string sentence)> report);
  ~FlightFolder();  // writes what is left
  FlightFolder(const FlightFolder&) = delete;
  FlightFolder& operator=(const FlightFolder&) = delete;

  // False: this hour's files are written. To be asked before a record is made, which takes a millisecond.
  bool HasRoom();
  // To a new file of a name that begins so: what is no letter, digit or dot becomes a dash, and process, time and
  // number are added. Where there is no room nothing is written.
  void Save(const std::string& name, std::string text);

 private:
  struct File {
    std::string path;
    std::string text;
  };

  FlightFolder(std::string folder, std::function<void(std::string)> report)
      : folder_(std::move(folder)), report_(std::move(report)) {}
  bool HasRoomLocked();  // under mutex_
  void Run();

  const std::string folder_;
  const std::function<void(std::string)> report_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<File> files_;      // under mutex_
  uint64_t hour_began_ns_ = 0;  // under mutex_
  size_t saved_in_hour_ = 0;    // under mutex_
  uint64_t saved_ = 0;          // under mutex_
  bool ending_ = false;         // under mutex_
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_PROCESS_FLIGHT_FOLDER_H_
