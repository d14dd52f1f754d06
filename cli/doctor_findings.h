// What the doctor has found so far. One thread.
#ifndef SHOAL_CLI_DOCTOR_FINDINGS_H_
#define SHOAL_CLI_DOCTOR_FINDINGS_H_

#include <string>
#include <utility>
#include <vector>

#include "cli/doctor.h"

namespace shoal::cli {

inline constexpr char kFixOfClock[] =
    "let an NTP client such as chrony set it: logs of different nodes can't be compared";

class Findings {
 public:
  void Good(std::string check, std::string text) { Add(std::move(check), Verdict::kGood, std::move(text), ""); }
  void Note(std::string check, std::string text) { Add(std::move(check), Verdict::kNote, std::move(text), ""); }
  void Warn(std::string check, std::string text, std::string fix) {
    Add(std::move(check), Verdict::kWarning, std::move(text), std::move(fix));
  }
  void Add(std::string check, Verdict verdict, std::string text, std::string fix) {
    findings_.push_back({std::move(check), verdict, std::move(text), std::move(fix)});
  }
  std::vector<Finding> Take() { return std::move(findings_); }

 private:
  std::vector<Finding> findings_;
};

}  // namespace shoal::cli

#endif  // SHOAL_CLI_DOCTOR_FINDINGS_H_
