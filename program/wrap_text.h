// Text for a terminal of 100 columns. Pure; any thread.
#ifndef SHOAL_PROGRAM_WRAP_TEXT_H_
#define SHOAL_PROGRAM_WRAP_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace shoal {

inline constexpr size_t kMostColumns = 100;

// Characters, not bytes, so that names in UTF-8 stay aligned.
size_t TextWidth(std::string_view text);

// A paragraph in lines of at most kMostColumns characters, where its words allow it; each line after the first begins
// with `indent` spaces. Ends with a line feed.
std::string WrapText(const std::string& text, size_t indent);

// Each line of the text as such a paragraph, of which the lines after the first begin so many spaces further right than
// the first. The text ends with a line feed.
std::string WrapLines(std::string_view text, size_t further = 4);

}  // namespace shoal

#endif  // SHOAL_PROGRAM_WRAP_TEXT_H_
