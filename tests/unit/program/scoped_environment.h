// Environment variables for a test's time. One thread.
#ifndef SHOAL_TESTS_UNIT_PROGRAM_SCOPED_ENVIRONMENT_H_
#define SHOAL_TESTS_UNIT_PROGRAM_SCOPED_ENVIRONMENT_H_

#include <cstdlib>
#include <map>
#include <string>
#include <utility>

namespace shoal {

class ScopedEnvironment {
 public:
  explicit ScopedEnvironment(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~ScopedEnvironment() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  const std::map<std::string, std::string> variables_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_UNIT_PROGRAM_SCOPED_ENVIRONMENT_H_
