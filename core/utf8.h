// Text of unknown origin (a program's reason, a peer's words) on its way into messages and logs, which take UTF-8
// alone. Pure; any thread.
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

}  // namespace shoal

#endif  // SHOAL_CORE_UTF8_H_
