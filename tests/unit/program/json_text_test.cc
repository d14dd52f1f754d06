#include "program/json_text.h"

#include <cmath>
#include <string>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(JsonText, FieldsStayInTheirOrderAndNoTextCanHarm) {
  EXPECT_EQ(JsonText({{"b", 1}, {"a", {"x", true}}, {"none", NAN}}), R"({"b":1,"a":["x",true],"none":null})");
  EXPECT_EQ(JsonText("a \"b\" \\ c"), R"("a \"b\" \\ c")");
  EXPECT_EQ(JsonText("line\nnext\x7f"), R"("line\nnext\u007f")");
  EXPECT_EQ(JsonText("a\u009bb\u202ec\u2066"), R"("a\u009bb\u202ec\u2066")");
  EXPECT_EQ(JsonText("caf\xc3\xa9"), R"("caf\u00e9")");
  EXPECT_EQ(JsonText({{"\xff", "a\xe0\x80"}}), R"({"\ufffd":"a\ufffd\ufffd"})") << "no UTF-8";
}

}  // namespace
}  // namespace shoal
