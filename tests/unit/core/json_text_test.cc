#include "core/json_text.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(JsonText, QuotesWhatJsonDoesNotTake) {
  EXPECT_EQ(QuoteJson(""), "\"\"");
  EXPECT_EQ(QuoteJson("a \"b\" \\ c"), "\"a \\\"b\\\" \\\\ c\"");
  EXPECT_EQ(QuoteJson("line\nnext\x7f"), "\"line\\u000anext\\u007f\"");
  EXPECT_EQ(QuoteJson("a\u009bb\u202ec\u2066"), "\"a\\u009bb\\u202ec\\u2066\"");
  EXPECT_EQ(QuoteJson("caf\xc3\xa9"), "\"caf\xc3\xa9\"");
  EXPECT_EQ(QuoteJson("\xff\xe0\x80"), "\"\\u00ff\\u00e0\\u0080\"") << "no UTF-8";
}

}  // namespace
}  // namespace shoal
