// One table of a program's options, from which its flags, its environment variables, --help and the printout of what is
// in effect are made: an option can't exist in one of them and be missing in another.
//
//   SchedulerConfig config;                      // members hold the defaults
//   OptionTable options;
//   options.String("listen", "SHOAL_SCHEDULER_LISTEN", "IP:PORT", "Address to listen on.", &config.listen);
//   options.Bytes("slot-memory,s", "", "BYTES", "Memory for chunks.", &config.slot_memory_bytes);   // also "-s 64M"
//   absl::Status status = options.Parse({argv + 1, argv + argc}, lookup);
//
// The command line wins over the environment, the environment over the default. `--name value` and `--name=value` are
// the same; one-letter names take one dash. A flag stands alone or takes =true or =false. `--` ends the options.
//
// Threads: one at a time. Ownership: the targets belong to the caller and must outlive the table. Pure: what surrounds
// the program (arguments, environment) is passed in.
#ifndef SHOAL_PROGRAM_OPTION_TABLE_H_
#define SHOAL_PROGRAM_OPTION_TABLE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shoal {

// "65536", "64K", "64KiB", "25M", "1G": K, M and G are powers of 1024, with "B" or "iB" after them or not.
// InvalidArgument: not a number, an unknown suffix, or more than 64 bits.
absl::StatusOr<uint64_t> ParseBytes(const std::string& text);

class OptionTable {
 public:
  // Gives the value of an environment variable, nullopt if it is not set. An empty value counts as not set.
  using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

  // Each of these declares an option. `names` is the long name, then perhaps a comma and a letter ("minbytes,b"); or a
  // letter alone. `env` may be empty (no environment variable). `unit` is what --help shows as the value ("MS",
  // "PATH"). The default is what `target` holds now.
  void String(const std::string& names, const std::string& env, const std::string& unit, const std::string& help,
              std::string* target);
  void Uint64(const std::string& names, const std::string& env, const std::string& unit, const std::string& help,
              uint64_t* target, uint64_t min = 0, uint64_t max = UINT64_MAX);
  void Uint32(const std::string& names, const std::string& env, const std::string& unit, const std::string& help,
              uint32_t* target, uint32_t min = 0, uint32_t max = UINT32_MAX);
  void Double(const std::string& names, const std::string& env, const std::string& unit, const std::string& help,
              double* target);
  void Bytes(const std::string& names, const std::string& env, const std::string& help, uint64_t* target,
             uint64_t min = 0, uint64_t max = UINT64_MAX);
  void Flag(const std::string& names, const std::string& env, const std::string& help, bool* target);
  // Declares the flags that every program has: --help or -h, and --version.
  void HelpAndVersion(bool* help, bool* version);

  // Reads the environment, then `arguments` (without the program's name), into the targets. Words that are no options
  // go to `positional`; with nullptr they are errors. InvalidArgument says which option or variable is wrong and what
  // it takes; an unknown option's message suggests the nearest one. After an error the targets may be partly set.
  absl::Status Parse(const std::vector<std::string>& arguments, const EnvironmentLookup& lookup,
                     std::vector<std::string>* positional = nullptr);

  // The text of --help: `usage` ("shoal-scheduler [options]"), `summary`, then each option with its unit, what it does,
  // its default and its variable. Lines have at most 100 characters where their words allow it.
  std::string Help(const std::string& usage, const std::string& summary) const;

  // The lines of --help about these options alone, in the order of their declaration.
  std::string Entries(const std::vector<std::string>& long_names) const;
  // "--scheduler HOST:PORT, --json": these options in one line, in the order of their declaration.
  std::string Synopsis(const std::vector<std::string>& long_names) const;

  // Whether the arguments that were parsed have that option.
  bool IsOnCommandLine(const std::string& long_name) const;

  // Of all options that have one, without dashes, in the order of their declaration.
  std::vector<std::string> LongNames() const;

  // What is in effect, an option a line, with where it came from (default, environment, command line). Options named
  // help and version are left out.
  std::string Effective() const;

 private:
  // Returns what is wrong with the text, empty if nothing.
  using Setter = std::function<std::string(const std::string& text)>;

  struct Option {
    std::string long_name;   // without dashes; may be empty
    std::string short_name;  // one letter; may be empty
    std::string env;
    std::string unit;
    std::string help;
    std::string default_text;
    std::string source = "default";
    bool is_flag = false;
    Setter set;
    std::function<std::string()> show;

    std::string DashedName() const;
    std::string Entry() const;
  };

  void Add(const std::string& names, const std::string& env, const std::string& unit, const std::string& help,
           Setter set, std::function<std::string()> show);
  Option* Find(const std::string& dashed);
  std::vector<const Option*> Named(const std::vector<std::string>& long_names) const;
  absl::Status ParseEnvironment(const EnvironmentLookup& lookup);
  absl::Status UnknownOption(const std::string& dashed) const;

  std::vector<Option> options_;
};

}  // namespace shoal

#endif  // SHOAL_PROGRAM_OPTION_TABLE_H_
