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

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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

  // `choice`: kNoFlightFolder gives nullptr. kOwnFlightFolder: shoal-flights-UID in the temporary directory (TMPDIR,
  // otherwise /tmp); it is made with the first file, for this user alone, and where it can't be made the first failure
  // says so and nothing else happens. Otherwise a folder. `report` is called on the thread with a sentence for each
  // file, also for one that could not be written. InvalidArgument: there is no such folder, or nothing can be written
  // there. ResourceExhausted: the process can't have another thread.
  static absl::StatusOr<std::unique_ptr<FlightFolder>> Start(const std::string& choice,
                                                             std::function<void(std::string sentence)> report);
  ~FlightFolder();  // writes what is left
  FlightFolder(const FlightFolder&) = delete;
  FlightFolder& operator=(const FlightFolder&) = delete;

  // False: this hour's files are written, or there is no folder after all. To be asked before a record is made, which
  // takes a millisecond.
  bool HasRoom();

  struct Record {
    std::string name;     // the file's begins so: what is no letter, digit or dot becomes a dash
    std::string failure;  // for the sentence that names the file: who failed, and why
    std::string text;
  };
  // To a new file, whose name has process, time and number after that of the record. Where there is no room nothing is
  // written.
  void Save(Record record);

 private:
  struct File {
    std::string path;
    Record record;
  };

  FlightFolder(std::string folder, bool is_own, std::function<void(std::string)> report)
      : folder_(std::move(folder)), is_own_(is_own), report_(std::move(report)) {}
  bool HasRoomLocked();  // under mutex_
  void Run();
  // A sentence about it.
  std::string Write(const File& file);

  const std::string folder_;
  const bool is_own_;  // nobody named it: kOwnFlightFolder
  const std::function<void(std::string)> report_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<File> files_;      // under mutex_
  uint64_t hour_began_ns_ = 0;  // under mutex_
  size_t saved_in_hour_ = 0;    // under mutex_
  uint64_t saved_ = 0;          // under mutex_
  bool gave_up_ = false;        // under mutex_; the own folder can't be had
  bool ending_ = false;         // under mutex_
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_PROCESS_FLIGHT_FOLDER_H_
