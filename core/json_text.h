// Text in JSON. Pure; any thread.
#ifndef SHOAL_CORE_JSON_TEXT_H_
#define SHOAL_CORE_JSON_TEXT_H_

#include <string>
#include <string_view>

namespace shoal {

// The text as a string of JSON (RFC 8259), with its quotes. What IsPrintable (core/utf8.h) does not
// take is escaped.
std::string QuoteJson(std::string_view text);

}  // namespace shoal

#endif  // SHOAL_CORE_JSON_TEXT_H_
