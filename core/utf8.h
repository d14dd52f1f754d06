// Text of unknown origin (a program's reason, a peer's words) on its way into messages and logs, which take UTF-8
// alone, and to terminals, which obey some of it. Pure; any thread.
#ifndef SHOAL_CORE_UTF8_H_
#define SHOAL_CORE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace shoal {

// Bytes of the UTF-8 character (RFC 3629) at the start of `text`, which is not empty; 0: it is none.
size_t Utf8Length(std::string_view text);

// The text with '?' for each byte that belongs to no UTF-8 character, cut before the first character that does not end
// within `most_bytes`.
std::string MakeUtf8(std::string_view text, size_t most_bytes);

// Bytes at the start of `text`, which is not empty, of what a terminal does not show but does: a control character (C0,
// DEL or C1, of which ESC and U+009B begin commands), a mark that turns the direction of the text after it (U+202A to
// U+202E, U+2066 to U+2069), U+2028 or U+2029, which end lines, or a byte of no character; 0: a character to be shown.
size_t UnprintableLength(std::string_view text);

bool IsPrintable(std::string_view text);

// The text with '?' for each of those, cut before the first character that does not end within `most_bytes`. Characters
// in `kept` stay as they are.
std::string MakePrintable(std::string_view text, size_t most_bytes = std::string_view::npos,
                          std::string_view kept = "");

// The text with each byte of those as "\\x1b". Characters in `kept` stay as they are.
std::string EscapeUnprintable(std::string_view text, std::string_view kept = "");

}  // namespace shoal

#endif  // SHOAL_CORE_UTF8_H_
