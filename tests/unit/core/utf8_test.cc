#include "core/utf8.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
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

TEST(Utf8, WhatATerminalObeysIsNotShown) {
  for (const std::string_view shown : {"loss is nan", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x90\x9f", "\xc2\xa0",
                                       "\xe2\x80\x8f", "\xe2\x80\xa7", "\xe2\x80\xaf", "\xe2\x81\xaa"}) {
    EXPECT_TRUE(IsPrintable(shown)) << shown;
    EXPECT_EQ(MakePrintable(shown), shown);
  }
  for (const std::string_view hidden : std::initializer_list<std::string_view>{
           "\x1b", "\n", "\x7f", std::string_view("\0", 1),  // C0 and DEL
           "\xc2\x80", "\xc2\x9b", "\xc2\x9f",               // C1
           "\xe2\x80\xa8", "\xe2\x80\xa9",                   // ends of lines and paragraphs
           "\xe2\x80\xaa", "\xe2\x80\xae",                   // embeddings and overrides of the direction
           "\xe2\x81\xa6", "\xe2\x81\xa9",                   // isolates
           "\xff"                                            // no character
       }) {
    EXPECT_EQ(UnprintableLength(hidden), hidden.size());
    EXPECT_FALSE(IsPrintable(std::string("a") + std::string(hidden)));
    EXPECT_EQ(MakePrintable(std::string("a") + std::string(hidden) + "[31m"), "a?[31m");
  }
  EXPECT_EQ(MakePrintable("a\n\x1b\nb", std::string_view::npos, "\n"), "a\n?\nb");
  EXPECT_EQ(MakePrintable("ab\xe2\x82\xac", 4), "ab") << "no half of a character";
  EXPECT_TRUE(IsPrintable(""));
}

}  // namespace
}  // namespace shoal
