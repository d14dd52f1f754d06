// JSON as programs write it. Pure; any thread.
#ifndef SHOAL_PROGRAM_JSON_TEXT_H_
#define SHOAL_PROGRAM_JSON_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

namespace shoal {

using Json = nlohmann::ordered_json;  // fields stay in the order in which they were set

// In one line. Whatever is no ASCII is escaped, since a terminal obeys some of it; what is no UTF-8 becomes U+FFFD.
// Numbers that are not finite become null.
std::string JsonText(const Json& json);

}  // namespace shoal

#endif  // SHOAL_PROGRAM_JSON_TEXT_H_
