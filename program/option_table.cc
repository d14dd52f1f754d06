#include "program/option_table.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "program/nearest_text.h"
#include "program/wrap_text.h"

namespace shoal {
namespace {

constexpr char kCommandLine[] = "command line";  // where a value came from

// Digits only: absl::SimpleAtoi alone would take " +5 ".
bool ParseNumber(const std::string& text, uint64_t* value) {
  const bool digits_only =
      !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  return digits_only && absl::SimpleAtoi(text, value);
}

std::string RangeText(uint64_t min, uint64_t max) {
  if (max == UINT64_MAX && min == 0) return "";
  if (max == UINT64_MAX) return absl::StrCat(" of at least ", min);
  return absl::StrCat(" from ", min, " to ", max);
}

std::string SetNumber(const std::string& text, uint64_t min, uint64_t max, uint64_t* value) {
  uint64_t number = 0;
  if (!ParseNumber(text, &number) || number < min || number > max) {
    return absl::StrCat("takes a whole number", RangeText(min, max));
  }
  *value = number;
  return "";
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

std::string OptionTable::Option::DashedName() const {
  return long_name.empty() ? absl::StrCat("-", short_name) : absl::StrCat("--", long_name);
}

std::string OptionTable::Option::Entry() const {
  std::string names = DashedName();
  if (!long_name.empty() && !short_name.empty()) names = absl::StrCat("-", short_name, ", ", names);
  std::string origin = absl::StrCat("Default: ", default_text.empty() ? "(none)" : default_text);
  if (!unit.empty() && !default_text.empty()) absl::StrAppend(&origin, " [", unit, "]");
  if (!env.empty()) absl::StrAppend(&origin, ". Environment: ", env);
  constexpr size_t kIndent = 6;
  const std::string indent(kIndent, ' ');
  return absl::StrCat("  ", names, unit.empty() ? "" : " ", unit, "\n", WrapText(indent + help, kIndent),
                      WrapText(indent + origin, kIndent));
}

void OptionTable::Add(const std::string& names, const std::string& env, const std::string& unit,
                      const std::string& help, Setter set, std::function<std::string()> show) {
  Option option;
  option.env = env;
  option.unit = unit;
  option.help = help;
  option.set = std::move(set);
  option.show = std::move(show);
  const size_t comma = names.find(',');
  const std::string first = names.substr(0, comma);
  (first.size() == 1 ? option.short_name : option.long_name) = first;
  if (comma != std::string::npos) option.short_name = names.substr(comma + 1);
  option.default_text = option.show();
  options_.push_back(std::move(option));
}

void OptionTable::String(const std::string& names, const std::string& env, const std::string& unit,
                         const std::string& help, std::string* target) {
  const auto set = [target](const std::string& text) {
    *target = text;
    return std::string();
  };
  const auto show = [target] { return *target; };
  Add(names, env, unit, help, set, show);
}

void OptionTable::Uint64(const std::string& names, const std::string& env, const std::string& unit,
                         const std::string& help, uint64_t* target, uint64_t min, uint64_t max) {
  const auto set = [=](const std::string& text) { return SetNumber(text, min, max, target); };
  const auto show = [target] { return absl::StrCat(*target); };
  Add(names, env, unit, help, set, show);
}

void OptionTable::Uint32(const std::string& names, const std::string& env, const std::string& unit,
                         const std::string& help, uint32_t* target, uint32_t min, uint32_t max) {
  const auto set = [=](const std::string& text) {
    uint64_t number = 0;
    std::string wrong = SetNumber(text, min, max, &number);
    if (wrong.empty()) *target = static_cast<uint32_t>(number);
    return wrong;
  };
  const auto show = [target] { return absl::StrCat(*target); };
  Add(names, env, unit, help, set, show);
}

void OptionTable::Double(const std::string& names, const std::string& env, const std::string& unit,
                         const std::string& help, double* target) {
  const auto set = [target](const std::string& text) {
    return absl::SimpleAtod(text, target) ? std::string() : std::string("takes a number");
  };
  const auto show = [target] { return absl::StrCat(*target); };
  Add(names, env, unit, help, set, show);
}

void OptionTable::Bytes(const std::string& names, const std::string& env, const std::string& help, uint64_t* target,
                        uint64_t min, uint64_t max) {
  const auto set = [=](const std::string& text) {
    const absl::StatusOr<uint64_t> parsed = ParseBytes(text);
    if (!parsed.ok()) return absl::StrCat("takes a size (", parsed.status().message(), ")");
    if (*parsed < min) return absl::StrCat("takes a size of at least ", ShowBytes(min));
    if (*parsed > max) return absl::StrCat("takes a size of at most ", ShowBytes(max));
    *target = *parsed;
    return std::string();
  };
  const auto show = [target] { return ShowBytes(*target); };
  Add(names, env, "BYTES", help, set, show);
}

void OptionTable::Flag(const std::string& names, const std::string& env, const std::string& help, bool* target) {
  const auto set = [target](const std::string& text) {
    const bool on = text == "true" || text == "1";
    if (!on && text != "false" && text != "0") return std::string("takes true or false");
    *target = on;
    return std::string();
  };
  const auto show = [target] { return std::string(*target ? "true" : "false"); };
  Add(names, env, "", help, set, show);
  options_.back().is_flag = true;
}

void OptionTable::HelpAndVersion(bool* help, bool* version) {
  Flag("help,h", "", "Show this and exit.", help);
  Flag("version", "", "Show the version and exit.", version);
}

OptionTable::Option* OptionTable::Find(const std::string& dashed) {
  for (Option& option : options_) {
    if (!option.long_name.empty() && dashed == absl::StrCat("--", option.long_name)) return &option;
    if (!option.short_name.empty() && dashed == absl::StrCat("-", option.short_name)) return &option;
  }
  return nullptr;
}

absl::Status OptionTable::UnknownOption(const std::string& dashed) const {
  std::vector<std::string> names;
  for (const Option& option : options_) names.push_back(option.DashedName());
  return absl::InvalidArgumentError(
      absl::StrCat("unknown option ", dashed, DidYouMean(dashed, names), "; --help lists the options"));
}

absl::Status OptionTable::ParseEnvironment(const EnvironmentLookup& lookup) {
  for (Option& option : options_) {
    if (option.env.empty()) continue;
    const std::optional<std::string> text = lookup(option.env);
    if (!text.has_value() || text->empty()) continue;
    const std::string wrong = option.set(*text);
    if (!wrong.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("environment variable ", option.env, "=", *text, ": ", wrong));
    }
    option.source = absl::StrCat("environment variable ", option.env);
  }
  return absl::OkStatus();
}

absl::Status OptionTable::Parse(const std::vector<std::string>& arguments, const EnvironmentLookup& lookup,
                                std::vector<std::string>* positional) {
  if (absl::Status status = ParseEnvironment(lookup); !status.ok()) return status;
  bool options_ended = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (options_ended || word.size() < 2 || word[0] != '-') {
      if (positional == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat("unexpected argument \"", word, "\"; --help lists the options"));
      }
      positional->push_back(word);
      continue;
    }
    if (word == "--") {
      options_ended = true;
      continue;
    }
    const size_t equals = word.find('=');
    const std::string dashed = word.substr(0, equals);
    Option* option = Find(dashed);
    if (option == nullptr) return UnknownOption(dashed);
    std::string text;
    if (equals != std::string::npos) {
      text = word.substr(equals + 1);
    } else if (option->is_flag) {
      text = "true";
    } else if (i + 1 < arguments.size()) {
      text = arguments[++i];
    } else {
      return absl::InvalidArgumentError(absl::StrCat(dashed, " needs a value: ", dashed, " ", option->unit));
    }
    const std::string wrong = option->set(text);
    if (!wrong.empty()) return absl::InvalidArgumentError(absl::StrCat(dashed, " ", wrong, ", not \"", text, "\""));
    option->source = kCommandLine;
  }
  return absl::OkStatus();
}

std::string OptionTable::Help(const std::string& usage, const std::string& summary) const {
  std::string text = absl::StrCat("Usage: ", usage, "\n\n", summary, "\n\nOptions:\n");
  for (const Option& option : options_) text += option.Entry();
  return text;
}

std::vector<const OptionTable::Option*> OptionTable::Named(const std::vector<std::string>& long_names) const {
  std::vector<const Option*> named;
  for (const Option& option : options_) {
    if (std::ranges::find(long_names, option.long_name) != long_names.end()) named.push_back(&option);
  }
  return named;
}

std::string OptionTable::Entries(const std::vector<std::string>& long_names) const {
  std::string text;
  for (const Option* option : Named(long_names)) text += option->Entry();
  return text;
}

std::string OptionTable::Synopsis(const std::vector<std::string>& long_names) const {
  return absl::StrJoin(Named(long_names), ", ", [](std::string* text, const Option* option) {
    absl::StrAppend(text, option->DashedName(), option->unit.empty() ? "" : " ", option->unit);
  });
}

bool OptionTable::IsOnCommandLine(const std::string& long_name) const {
  return std::ranges::any_of(Named({long_name}), [](const Option* option) { return option->source == kCommandLine; });
}

std::vector<std::string> OptionTable::LongNames() const {
  std::vector<std::string> names;
  for (const Option& option : options_) {
    if (!option.long_name.empty()) names.push_back(option.long_name);
  }
  return names;
}

std::string OptionTable::Effective() const {
  std::string text;
  for (const Option& option : options_) {
    if (option.long_name == "help" || option.long_name == "version") continue;
    const std::string value = option.show();
    absl::StrAppend(&text, "  ", option.DashedName(), "=", value.empty() ? "(none)" : value,
                    option.unit.empty() ? "" : " ", option.unit, " (", option.source, ")\n");
  }
  return text;
}

}  // namespace shoal
