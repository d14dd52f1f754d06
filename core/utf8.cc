#include "core/utf8.h"

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// With '?' for what `length_of` gives a length of, which is at least that of what is no character.
template <typename LengthOf>
std::string Replace(std::string_view text, size_t most_bytes, const LengthOf& length_of) {
  std::string made;
  while (!text.empty()) {
    const size_t replaced = length_of(text);
    const std::string_view character = replaced > 0 ? std::string_view("?") : text.substr(0, Utf8Length(text));
    if (made.size() + character.size() > most_bytes) break;
    made.append(character);
    text.remove_prefix(replaced > 0 ? replaced : character.size());
  }
  return made;
}

}  // namespace

size_t Utf8Length(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = at(0) < 0x80                     ? 1
                        : at(0) >= 0xc2 && at(0) <= 0xdf ? 2
                        : (at(0) & 0xf0) == 0xe0         ? 3
                        : at(0) >= 0xf0 && at(0) <= 0xf4 ? 4
                                                         : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (at(0) == 0xe0 && at(1) < 0xa0) || (at(0) == 0xf0 && at(1) < 0x90);
  const bool no_character = (at(0) == 0xed && at(1) >= 0xa0) || (at(0) == 0xf4 && at(1) >= 0x90);
  return overlong || no_character ? 0 : length;
}

std::string MakeUtf8(std::string_view text, size_t most_bytes) {
  return Replace(text, most_bytes, [](std::string_view rest) -> size_t { return Utf8Length(rest) == 0 ? 1 : 0; });
}

size_t UnprintableLength(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = Utf8Length(text);
  if (length == 0) return 1;
  const bool is_c0 = length == 1 && (at(0) < 0x20 || at(0) == 0x7f);
  const bool is_c1 = length == 2 && at(0) == 0xc2 && at(1) < 0xa0;
  const bool ends_line_or_turns = length == 3 && at(0) == 0xe2 && at(1) == 0x80 && at(2) >= 0xa8 && at(2) <= 0xae;
  const bool isolates = length == 3 && at(0) == 0xe2 && at(1) == 0x81 && at(2) >= 0xa6 && at(2) <= 0xa9;
  return is_c0 || is_c1 || ends_line_or_turns || isolates ? length : 0;
}

bool IsPrintable(std::string_view text) {
  while (!text.empty()) {
    if (UnprintableLength(text) > 0) return false;
    text.remove_prefix(Utf8Length(text));
  }
  return true;
}

std::string MakePrintable(std::string_view text, size_t most_bytes, std::string_view kept) {
  return Replace(text, most_bytes, [kept](std::string_view rest) -> size_t {
    return kept.find(rest.front()) != std::string_view::npos ? 0 : UnprintableLength(rest);
  });
}

std::string EscapeUnprintable(std::string_view text, std::string_view kept) {
  std::string made;
  while (!text.empty()) {
    const size_t escaped = kept.find(text.front()) != std::string_view::npos ? 0 : UnprintableLength(text);
    for (const char c : text.substr(0, escaped)) {
      absl::StrAppend(&made, "\\x", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
    const size_t shown = escaped > 0 ? 0 : Utf8Length(text);
    made.append(text.substr(0, shown));
    text.remove_prefix(escaped + shown);
  }
  return made;
}

}  // namespace shoal
