#include "program/json_text.h"

namespace shoal {

std::string JsonText(const Json& json) {
  return json.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

}  // namespace shoal
