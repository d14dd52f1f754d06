// The options of a program, and of its commands if it has some. CLI11 reads and explains them; this adds our types, and
// says where a value came from.
//
//   SchedulerConfig config;                      // members hold the defaults
//   OptionTable options("shoal-scheduler", "Keeps the membership of a Shoal cluster.");
//   options.String("listen", "SHOAL_SCHEDULER_LISTEN", "IP:PORT", "Address to listen on.", &config.listen);
//   options.Bytes("slot-memory,s", "", "BYTES", "Memory for chunks.", &config.slot_memory_bytes);   // also "-s 64M"
//   absl::Status status = options.Parse({argv + 1, argv + argc});
//   if (status.ok() && !options.answer().empty()) ...                                            // --help or --version
//
// The command line wins over the environment, the environment over the default. `--name value` and `--name=value` are
// the same; one-letter names take one dash. Of an option that is given twice the last one counts. A flag stands alone
// or takes =true or =false. `--` ends the options. A command's options may stand before it as well.
//
// Threads: one at a time. Ownership: the targets belong to the caller and must outlive the table. No exception of CLI11
// leaves it, except for a declaration that is wrong in itself.
#ifndef SHOAL_PROGRAM_OPTION_TABLE_H_
#define SHOAL_PROGRAM_OPTION_TABLE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/version.h"

namespace CLI {
class App;
}  // namespace CLI

namespace shoal {

// "65536", "64K", "64KiB", "25M", "1G": K, M and G are powers of 1024, with "B" or "iB" after them or not.
// InvalidArgument: not a number, an unknown suffix, or more than 64 bits.
absl::StatusOr<uint64_t> ParseBytes(const std::string& text);

class OptionTable {
 public:
  // `summary` and `end` are what --help says before and after the options. --help, -h and --version are there.
  explicit OptionTable(const std::string& program = "", const std::string& summary = "", const std::string& end = "",
                       const std::string& version = kSoftwareVersion);

  // Declares a command, whose options are then declared in what this returns. It belongs to this table.
  OptionTable* AddCommand(const std::string& name, const std::string& summary);

  // Each of these declares an option. `names` is the long name, then perhaps a comma and a letter ("minbytes,b"); or a
  // letter alone. `env` may be empty (no environment variable). `unit` is what --help shows as the value ("MS",
  // "PATH"). The default is what `target` holds now.
  void String(const std::string& names, const std::string& env, const std::string& unit, const std::string& help,
              std::string* target);
  void Uint64(const std::string& names, const std::string& env, const std::string& unit, const std::string& help,
              uint64_t* target, uint64_t min = 0, uint64_t max = UINT64_MAX);
  void Uint32(const std::string& names, const std::string& env, const std::string& unit, const std::string& help,
              uint32_t* target, uint32_t min = 0, uint32_t max = UINT32_MAX);
  // A number that is finite.
  void Double(const std::string& names, const std::string& env, const std::string& unit, const std::string& help,
              double* target, double min = std::numeric_limits<double>::lowest(),
              double max = std::numeric_limits<double>::max());
  void Bytes(const std::string& names, const std::string& env, const std::string& help, uint64_t* target,
             uint64_t min = 0, uint64_t max = UINT64_MAX);
  void Flag(const std::string& names, const std::string& env, const std::string& help, bool* target);
  // Of any other type. `take` sets it, or says what is wrong with the text.
  using Taker = std::function<absl::Status(const std::string& text)>;
  void Value(const std::string& names, const std::string& env, const std::string& unit, const std::string& help,
             const std::string& default_text, Taker take);
  // One of the words that `words` lists ("auto|on|off"), and `named` knows.
  template <typename Choice>
  void OneOf(const std::string& names, const std::string& env, const std::string& words, const std::string& help,
             std::optional<Choice> (*named)(std::string_view), std::string_view (*name_of)(Choice), Choice* target) {
    Value(names, env, words, help, std::string(name_of(*target)), [=](const std::string& text) {
      const std::optional<Choice> choice = named(text);
      if (choice.has_value()) *target = *choice;
      return choice.has_value() ? absl::OkStatus() : absl::InvalidArgumentError("\"" + text + "\" is none of " + words);
    });
  }
  // A word that is no option, called "SERVER" in --help.
  void Word(const std::string& name, const std::string& help, bool is_required, std::string* target);

  // What was declared as `name` ("--deadline", "FOLDER") takes another one beside it, goes without it, or is in no
  // help.
  void Needs(const std::string& name, const std::string& other);
  void Excludes(const std::string& name, const std::string& other);
  void Hide(const std::string& name);

  // Reads the environment and `arguments` (without the program's name) into the targets. InvalidArgument says which
  // option or variable is wrong and what it takes; an unknown option's or command's message suggests the nearest one.
  // After an error the targets may be partly set. Called once.
  absl::Status Parse(const std::vector<std::string>& arguments);

  // What --help or --version asked for, to be printed instead of doing something. Empty: neither was there.
  const std::string& answer() const { return answer_; }
  // Which of the commands was given.
  std::string command() const;

  // "--help" and so on, of what is in the help, in the order of their declaration.
  std::vector<std::string> LongNames() const;
  // What is in effect, an option a line, with where it came from (default, environment, command line).
  std::string Effective() const;

 private:
  explicit OptionTable(std::shared_ptr<CLI::App> app) : app_(std::move(app)) {}

  absl::Status Missing() const;

  std::shared_ptr<CLI::App> app_;
  std::vector<std::unique_ptr<OptionTable>> commands_;
  std::string answer_;
};

}  // namespace shoal

#endif  // SHOAL_PROGRAM_OPTION_TABLE_H_
