// A document of JSON as plain values, for tests. Pure.
#ifndef SHOAL_TESTS_UNIT_CLI_JSON_VALUE_H_
#define SHOAL_TESTS_UNIT_CLI_JSON_VALUE_H_

#include <map>
#include <string>
#include <vector>

namespace shoal {

struct JsonValue {
  double number = 0;
  std::string text;
  std::vector<JsonValue> list;
  std::map<std::string, JsonValue> fields;
};

// Fails the test if it is no JSON object.
JsonValue ReadJson(const std::string& text);

}  // namespace shoal

#endif  // SHOAL_TESTS_UNIT_CLI_JSON_VALUE_H_
