#include "core/json_text.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "core/utf8.h"

namespace shoal {

std::string QuoteJson(std::string_view text) {
  std::string quoted = "\"";
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text.substr(i));
    const auto byte = static_cast<unsigned char>(text[i]);
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      absl::StrAppend(&quoted, "\\u", absl::Hex(byte, absl::kZeroPad4));
    } else {
      if (byte == '"' || byte == '\\') quoted.push_back('\\');
      quoted.append(text.substr(i, length));
    }
    i += std::max<size_t>(length, 1);
  }
  quoted.push_back('"');
  return quoted;
}

}  // namespace shoal
