#include "program/wrap_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace shoal {

size_t TextWidth(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string WrapText(const std::string& text, size_t indent) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  std::string wrapped = words.front();
  size_t column = TextWidth(wrapped);
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t width = TextWidth(words[i]);
    if (column > indent && column + 1 + width > kMostColumns) {
      if (width == 0) continue;  // of several spaces, which a line neither ends nor begins with
      wrapped.erase(wrapped.find_last_not_of(' ') + 1);
      absl::StrAppend(&wrapped, "\n", std::string(indent, ' '), words[i]);
      column = indent + width;
    } else {
      absl::StrAppend(&wrapped, " ", words[i]);
      column += 1 + width;
    }
  }
  return wrapped + '\n';
}

std::string WrapLines(std::string_view text, size_t further) {
  std::string wrapped;
  while (!text.empty()) {
    const std::string line(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    wrapped += WrapText(line, std::min(line.find_first_not_of(' '), line.size()) + further);
  }
  return wrapped;
}

}  // namespace shoal
