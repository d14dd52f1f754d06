#include "core/json_text.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "core/utf8.h"

namespace shoal {
namespace {

// Of a character of at most three bytes; of a byte that is none, the byte.
uint32_t CodeOf(std::string_view character) {
  const auto at = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(character[i])); };
  if (character.size() == 1) return at(0);
  if (character.size() == 2) return (at(0) & 0x1f) << 6 | (at(1) & 0x3f);
  return (at(0) & 0x0f) << 12 | (at(1) & 0x3f) << 6 | (at(2) & 0x3f);
}

}  // namespace

std::string QuoteJson(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const size_t unprintable = UnprintableLength(text);
    const size_t length = unprintable > 0 ? unprintable : Utf8Length(text);
    if (unprintable > 0) {
      absl::StrAppend(&quoted, "\\u", absl::Hex(CodeOf(text.substr(0, length)), absl::kZeroPad4));
    } else {
      if (text[0] == '"' || text[0] == '\\') quoted.push_back('\\');
      quoted.append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  quoted.push_back('"');
  return quoted;
}

}  // namespace shoal
