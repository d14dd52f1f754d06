#include "core/utf8.h"

#include <gtest/gtest.h>

#include <string_view>

namespace shoal {
namespace {

TEST(Utf8, LengthsOfCharactersAndOfWhatIsNone) {
  EXPECT_EQ(Utf8Length("ab"), 1u);
  EXPECT_EQ(Utf8Length("\xc3\xa9x"), 2u);
  EXPECT_EQ(Utf8Length("\xe2\x82\xac"), 3u);
  EXPECT_EQ(Utf8Length("\xf0\x9f\x90\x9f"), 4u);
  for (const std::string_view none : {
           "\x80", "\xc3", "\xc3z",        // the middle, the begin and half of one
           "\xc0\xaf", "\xe0\x80\xaf",     // overlong
           "\xed\xa0\x80",                 // half of a pair of UTF-16
           "\xf4\x90\x80\x80", "\xff\xff"  // beyond the last character
       }) {
    EXPECT_EQ(Utf8Length(none), 0u);
  }
}

TEST(Utf8, TextIsMadeReadableAndShort) {
  EXPECT_EQ(MakeUtf8("loss is nan", 300), "loss is nan");
  EXPECT_EQ(MakeUtf8("a\xff\xc3z\xc3\xa9", 300), "a??z\xc3\xa9");
  EXPECT_EQ(MakeUtf8("", 10), "");
  EXPECT_EQ(MakeUtf8("abcdef", 3), "abc");
  EXPECT_EQ(MakeUtf8("ab\xe2\x82\xac", 4), "ab") << "no half of a character";
}

}  // namespace
}  // namespace shoal
