#include "program/option_table.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "program/nearest_text.h"
#include "program/wrap_text.h"

namespace shoal {
namespace {

// Digits only: absl::SimpleAtoi alone would take " +5 ".
bool ParseNumber(const std::string& text, uint64_t* value) {
  const bool digits_only =
      !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  return digits_only && absl::SimpleAtoi(text, value);
}

// Of one number or another: "" or " from 1 to 5".
template <typename Number>
std::string RangeText(Number min, Number max) {
  if (max < std::numeric_limits<Number>::max()) return absl::StrCat(" from ", min, " to ", max);
  return min > std::numeric_limits<Number>::lowest() ? absl::StrCat(" of at least ", min) : "";
}

template <typename Number>
absl::Status SetWhole(const std::string& text, Number min, Number max, Number* target) {
  uint64_t number = 0;
  if (!ParseNumber(text, &number) || number < min || number > max) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no whole number", RangeText(min, max)));
  }
  *target = static_cast<Number>(number);
  return absl::OkStatus();
}

std::string ShowBytes(uint64_t value) {
  struct Suffix {
    uint64_t size;
    const char* text;
  };
  for (const Suffix& suffix : {Suffix{1u << 30, "G"}, Suffix{1u << 20, "M"}, Suffix{1u << 10, "K"}}) {
    if (value != 0 && value % suffix.size == 0) return absl::StrCat(value / suffix.size, suffix.text);
  }
  return absl::StrCat(value);
}

// "--minbytes,-b" of "minbytes,b".
std::string Dashed(const std::string& names) {
  const std::vector<std::string> parts = absl::StrSplit(names, ',');
  return absl::StrJoin(parts, ",", [](std::string* text, const std::string& name) {
    absl::StrAppend(text, name.size() == 1 ? "-" : "--", name);
  });
}

// An entry is the option with its unit, and below it what it does, its default and its variable.
class HelpText : public CLI::Formatter {
 public:
  HelpText() {
    label("OPTIONS", "options");
    label("SUBCOMMAND", "COMMAND");
  }
  std::string make_description(const CLI::App* app) const override {
    return WrapLines(app->get_description(), 0) + "\n";
  }
  std::string make_option(const CLI::Option* option, bool is_word) const override {
    constexpr size_t kIndent = 6;
    const std::string indent(kIndent, ' ');
    const std::string unit = option->get_type_name();
    std::string text =
        absl::StrCat("  ", absl::StrReplaceAll(make_option_name(option, is_word), {{",", ", "}}),
                     unit.empty() ? "" : " ", unit, "\n", WrapText(indent + option->get_description(), kIndent));
    if (is_word) return text;
    const std::string& value = option->get_default_str();
    std::string origin = absl::StrCat("Default: ", value.empty() ? "(none)" : value);
    if (!unit.empty() && !value.empty()) absl::StrAppend(&origin, " [", unit, "]");
    if (!option->get_envname().empty()) absl::StrAppend(&origin, ". Environment: ", option->get_envname());
    return text + WrapText(indent + origin, kIndent);
  }
  std::string make_subcommand(const CLI::App* command) const override {
    constexpr size_t kWidth = 22;
    std::string name = absl::StrCat("  ", command->get_name());
    for (const CLI::Option* word :
         command->get_options([](const CLI::Option* each) { return each->get_positional(); })) {
      absl::StrAppend(&name, " ", make_option_usage(word));
    }
    name.resize(std::max(name.size() + 2, kWidth), ' ');
    return WrapText(name + command->get_description(), kWidth);
  }
};

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

bool IsOnCommandLine(const CLI::App& app, const CLI::Option* option) {
  return std::ranges::find(app.parse_order(), option) != app.parse_order().end();
}

// Of any of them; null: none has it. `name`: with dashes.
const CLI::Option* FindOption(const std::vector<const CLI::App*>& apps, const std::string& name) {
  for (const CLI::App* app : apps) {
    if (const CLI::Option* const option = app->get_option_no_throw(name); option != nullptr) return option;
  }
  return nullptr;
}

absl::Status UnknownOption(const std::vector<const CLI::App*>& apps, const std::string& name) {
  std::vector<std::string> known;
  for (const CLI::App* app : apps) {
    for (const CLI::Option* option : app->get_options()) known.push_back(option->get_name());
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown option ", name, DidYouMean(name, known), "; --help lists the options"));
}

std::vector<std::string> NamesOf(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  return names;
}

// As CLI11 wants them: the command comes before its options, and values are words of their own. Of "--option=" it would
// take the next word for the value.
absl::StatusOr<std::vector<std::string>> Arrange(const CLI::App& app, const std::vector<std::string>& arguments) {
  const std::vector<std::string> commands = NamesOf(CommandsOf(app));
  std::vector<const CLI::App*> apps = CommandsOf(app);
  apps.push_back(&app);
  std::vector<std::string> arranged;
  bool has_command = commands.empty();
  bool options_ended = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (options_ended || word.size() < 2 || word[0] != '-') {
      if (!has_command && std::ranges::find(commands, word) == commands.end()) {
        return absl::InvalidArgumentError(absl::StrCat("unknown command \"", word, "\"", DidYouMean(word, commands),
                                                       "; use ", absl::StrJoin(commands, ", ")));
      }
      arranged.insert(has_command ? arranged.end() : arranged.begin(), word);
      has_command = true;
      continue;
    }
    options_ended = word == "--";
    const std::string name = word.substr(0, word.find('='));
    const CLI::Option* const option = FindOption(apps, name);
    if (option == nullptr && !has_command && name.size() > 2) return UnknownOption(apps, name);
    if (option == nullptr || option->get_items_expected_max() == 0) {
      arranged.push_back(word);
      continue;
    }
    arranged.push_back(name);
    if (name.size() < word.size()) {
      arranged.push_back(word.substr(name.size() + 1));
    } else if (i + 1 < arguments.size()) {
      arranged.push_back(arguments[++i]);
    } else {
      return absl::InvalidArgumentError(absl::StrCat(name, " needs a value: ", name, " ", option->get_type_name()));
    }
  }
  return arranged;
}

// Of words that are left over. `command`: the one that was given, or the program.
absl::Status Unexpected(const CLI::App& app, const CLI::App& command) {
  std::string word = "--";
  for (const std::string& each : app.remaining(/*recurse=*/true)) {
    if (word == "--") word = each;
  }
  if (word.size() < 2 || word[0] != '-') {
    return absl::InvalidArgumentError(absl::StrCat("unexpected argument \"", word, "\""));
  }
  const std::string name = word.substr(0, word.find('='));
  const auto has_it = [&](const CLI::App* each) { return each->get_option_no_throw(name) != nullptr; };
  const std::vector<const CLI::App*> others = app.get_subcommands(has_it);
  if (!others.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name, " only goes with ", absl::StrJoin(NamesOf(others), ", ")));
  }
  return UnknownOption({&command}, name);
}

}  // namespace

absl::StatusOr<uint64_t> ParseBytes(const std::string& text) {
  const size_t digits =
      std::find_if(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) == 0; }) - text.begin();
  const std::string suffix = text.substr(digits);
  uint64_t number = 0;
  uint32_t shift = 0;
  bool known = true;
  if (suffix.empty() || suffix == "B") {
    shift = 0;
  } else {
    const std::string tail = suffix.substr(1);
    const char letter = static_cast<char>(std::toupper(static_cast<unsigned char>(suffix[0])));
    shift = letter == 'K' ? 10 : letter == 'M' ? 20 : letter == 'G' ? 30 : letter == 'T' ? 40 : 0;
    known = shift != 0 && (tail.empty() || tail == "B" || tail == "iB");
  }
  if (!known || !ParseNumber(text.substr(0, digits), &number)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" is not a size; give bytes, or a number with K, M or G (powers of 1024), as in 64M"));
  }
  if (number > (std::numeric_limits<uint64_t>::max() >> shift)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is more than 64 bits can hold"));
  }
  return number << shift;
}

OptionTable::OptionTable(const std::string& program, const std::string& summary, const std::string& end,
                         const std::string& version)
    : app_(std::make_shared<CLI::App>(summary, program)) {
  app_->formatter(std::make_shared<HelpText>());
  app_->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app_->fallthrough();
  app_->footer(end);
  app_->set_help_flag("-h,--help", "Show this and exit.")->default_str("false");
  app_->set_version_flag("--version", absl::StrCat(program, " ", version), "Show the version and exit.")
      ->default_str("false");
}

OptionTable* OptionTable::AddCommand(const std::string& name, const std::string& summary) {
  app_->require_subcommand(1);
  CLI::App* const command = app_->add_subcommand(name, summary)->group("Commands")->footer("");
  command->get_help_ptr()->default_str("false");
  commands_.push_back(std::unique_ptr<OptionTable>(new OptionTable(app_->get_subcommand_ptr(command))));
  return commands_.back().get();
}

void OptionTable::Value(const std::string& names, const std::string& env, const std::string& unit,
                        const std::string& help, const std::string& default_text, Taker take) {
  CLI::App* const app = app_.get();
  const auto set = [app, name = Dashed(names.substr(0, names.find(','))),
                    take = std::move(take)](const CLI::results_t& texts) {
    if (!*app) return true;  // the environment's, for a command that was not given
    const absl::Status status = take(texts.back());
    if (status.ok()) return true;
    const CLI::Option* const option = app->get_option(name);
    throw CLI::ValidationError(IsOnCommandLine(*app, option)
                                   ? option->get_name(false, true)
                                   : absl::StrCat("environment variable ", option->get_envname()),
                               std::string(status.message()));
  };
  CLI::Option* const option = app->add_option(Dashed(names), set, help)->envname(env)->default_str(default_text);
  option->type_name(unit);
  if (unit.empty()) option->expected(0);
}

void OptionTable::String(const std::string& names, const std::string& env, const std::string& unit,
                         const std::string& help, std::string* target) {
  Value(names, env, unit, help, *target, [target](const std::string& text) {
    *target = text;
    return absl::OkStatus();
  });
}

void OptionTable::Uint64(const std::string& names, const std::string& env, const std::string& unit,
                         const std::string& help, uint64_t* target, uint64_t min, uint64_t max) {
  Value(names, env, unit, help, absl::StrCat(*target),
        [=](const std::string& text) { return SetWhole(text, min, max, target); });
}

void OptionTable::Uint32(const std::string& names, const std::string& env, const std::string& unit,
                         const std::string& help, uint32_t* target, uint32_t min, uint32_t max) {
  Value(names, env, unit, help, absl::StrCat(*target),
        [=](const std::string& text) { return SetWhole(text, min, max, target); });
}

void OptionTable::Double(const std::string& names, const std::string& env, const std::string& unit,
                         const std::string& help, double* target, double min, double max) {
  Value(names, env, unit, help, absl::StrCat(*target), [=](const std::string& text) {
    double number = 0;
    if (!absl::SimpleAtod(text, &number) || !(number >= min && number <= max)) {
      return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no number", RangeText(min, max)));
    }
    *target = number;
    return absl::OkStatus();
  });
}

void OptionTable::Bytes(const std::string& names, const std::string& env, const std::string& help, uint64_t* target,
                        uint64_t min, uint64_t max) {
  Value(names, env, "BYTES", help, ShowBytes(*target), [=](const std::string& text) {
    const absl::StatusOr<uint64_t> parsed = ParseBytes(text);
    if (!parsed.ok()) return parsed.status();
    if (*parsed < min || *parsed > max) {
      return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not a size of ",
                                                     *parsed < min ? "at least " : "at most ",
                                                     ShowBytes(*parsed < min ? min : max)));
    }
    *target = *parsed;
    return absl::OkStatus();
  });
}

void OptionTable::Flag(const std::string& names, const std::string& env, const std::string& help, bool* target) {
  Value(names, env, "", help, *target ? "true" : "false", [target](const std::string& text) {
    *target = text == "true" || text == "1";
    if (*target || text == "false" || text == "0") return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is neither true nor false"));
  });
}

void OptionTable::Word(const std::string& name, const std::string& help, bool is_required, std::string* target) {
  app_->add_option(name, *target, help)->required(is_required)->type_name("");
}

void OptionTable::Needs(const std::string& name, const std::string& other) {
  app_->get_option(name)->needs(app_->get_option(other));
}

void OptionTable::Excludes(const std::string& name, const std::string& other) {
  app_->get_option(name)->excludes(app_->get_option(other));
}

void OptionTable::Hide(const std::string& name) { app_->get_option(name)->group(""); }

std::string OptionTable::command() const {
  const std::vector<CLI::App*> given = app_->get_subcommands();
  return given.empty() ? "" : given.front()->get_name();
}

absl::Status OptionTable::Parse(const std::vector<std::string>& arguments) {
  absl::StatusOr<std::vector<std::string>> words = Arrange(*app_, arguments);
  if (!words.ok()) return words.status();
  std::ranges::reverse(*words);  // the order in which CLI11 takes them
  try {
    app_->parse(*words);
  } catch (const CLI::CallForVersion& version) {
    answer_ = absl::StrCat(version.what(), "\n");
  } catch (const CLI::CallForHelp&) {
    const std::string help = app_->help();
    answer_ = absl::StrCat(absl::StripTrailingAsciiWhitespace(help), "\n");
  } catch (const CLI::ExtrasError&) {
    // Below, where those beside --help are, too.
  } catch (const CLI::RequiredError&) {
    return Missing();
  } catch (const CLI::ExcludesError& error) {
    return absl::InvalidArgumentError(absl::StrCat(error.what(), "; give only one of the two"));
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (app_->remaining_size(/*recurse=*/true) == 0) return absl::OkStatus();
  return Unexpected(*app_, app_->get_subcommands().empty() ? *app_ : *app_->get_subcommands().front());
}

// A word or the command.
absl::Status OptionTable::Missing() const {
  for (const CLI::App* command : app_->get_subcommands()) {
    for (const CLI::Option* word : command->get_options([](const CLI::Option* each) { return each->get_required(); })) {
      return absl::InvalidArgumentError(
          absl::StrCat(command->get_name(), " takes ", word->get_name(), ": ", word->get_description()));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no command is given; use ", absl::StrJoin(NamesOf(CommandsOf(*app_)), ", ")));
}

std::vector<std::string> OptionTable::LongNames() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : std::as_const(*app_).get_options()) {
    if (option->get_lnames().empty() || option->get_group().empty()) continue;
    names.push_back(absl::StrCat("--", option->get_lnames().front()));
  }
  return names;
}

std::string OptionTable::Effective() const {
  std::string text;
  for (const CLI::Option* option : std::as_const(*app_).get_options()) {
    if (option == app_->get_help_ptr() || option == app_->get_version_ptr()) continue;
    const std::string value = option->count() > 0 ? option->results().back() : option->get_default_str();
    const std::string source = option->count() == 0 ? "default"
                               : IsOnCommandLine(*app_, option)
                                   ? "command line"
                                   : absl::StrCat("environment variable ", option->get_envname());
    absl::StrAppend(&text, "  ", option->get_name(), "=", value.empty() ? "(none)" : value,
                    option->get_type_name().empty() ? "" : " ", option->get_type_name(), " (", source, ")\n");
  }
  return text;
}

}  // namespace shoal
