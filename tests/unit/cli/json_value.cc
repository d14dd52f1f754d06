#include "tests/unit/cli/json_value.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "gtest/gtest.h"

namespace shoal {
namespace {

JsonValue FromMessage(const google::protobuf::Struct& object);

JsonValue FromMessage(const google::protobuf::Value& value) {
  if (value.has_struct_value()) return FromMessage(value.struct_value());
  JsonValue result{.number = value.number_value(), .text = value.string_value()};
  for (const google::protobuf::Value& each : value.list_value().values()) result.list.push_back(FromMessage(each));
  return result;
}

JsonValue FromMessage(const google::protobuf::Struct& object) {
  JsonValue result;
  for (const auto& [name, value] : object.fields()) result.fields[name] = FromMessage(value);
  return result;
}

}  // namespace

JsonValue ReadJson(const std::string& text) {
  google::protobuf::Struct document;
  const auto status = google::protobuf::util::JsonStringToMessage(text, &document);
  EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << text.substr(0, 2000);
  return FromMessage(document);
}

}  // namespace shoal
