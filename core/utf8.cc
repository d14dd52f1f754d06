#include "core/utf8.h"

namespace shoal {

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
  std::string made;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const std::string_view character = length == 0 ? std::string_view("?") : text.substr(0, length);
    if (made.size() + character.size() > most_bytes) break;
    made.append(character);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return made;
}

}  // namespace shoal
