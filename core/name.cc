#include "core/name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/utf8.h"

namespace shoal {
namespace {

constexpr absl::string_view kMarks = "._-:/";
constexpr size_t kMostShownBytes = 300;

bool IsOfName(char character) {
  return absl::ascii_isalnum(static_cast<unsigned char>(character)) || absl::StrContains(kMarks, character);
}

// "ö", "\x1b", "a space".
std::string CharacterText(const std::string& text) {
  if (text.front() == ' ') return "a space";
  const size_t length = Utf8Length(text);
  return absl::StrCat("'", EscapeUnprintable(text.substr(0, length == 0 ? 1 : length)), "'");
}

absl::Status Wrong(absl::string_view what, const std::string& name, const std::string& why) {
  const std::string begin = name.substr(0, kMostShownBytes);
  return absl::InvalidArgumentError(absl::StrCat(what, " \"", EscapeUnprintable(begin),
                                                 begin.size() < name.size() ? "..." : "", "\" has ", why,
                                                 "; give 1 to ", kMaxNameBytes, " ", kNameCharacters));
}

}  // namespace

absl::Status CheckName(absl::string_view what, const std::string& name) {
  if (name.empty() || name.size() > kMaxNameBytes) return Wrong(what, name, absl::StrCat(name.size(), " bytes"));
  const auto odd = std::ranges::find_if_not(name, IsOfName);
  if (odd == name.end()) return absl::OkStatus();
  const size_t at = static_cast<size_t>(odd - name.begin());
  return Wrong(what, name, absl::StrCat(CharacterText(name.substr(at)), " after ", at, " bytes"));
}

}  // namespace shoal
