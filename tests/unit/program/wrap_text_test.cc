#include "program/wrap_text.h"

#include <gtest/gtest.h>

#include <string>

namespace shoal {
namespace {

TEST(WrapText, ParagraphsAreWrappedAtWords) {
  const std::string words = "two words";
  EXPECT_EQ(WrapText(words, 4), "two words\n");
  const std::string long_word(98, 'x');
  EXPECT_EQ(WrapText("a " + long_word + " b", 4), "a " + long_word + "\n    b\n");
  EXPECT_EQ(WrapText("words " + long_word + " b", 4), "words\n    " + long_word + "\n    b\n");
  EXPECT_EQ(WrapText("  -> do", 5), "  -> do\n");
  for (const size_t length : {97, 98, 99, 100}) {
    const std::string word(length, 'x');
    EXPECT_EQ(WrapText(word + "  next", 4), word + "\n    next\n") << "no line ends or begins with its two spaces";
  }
}

TEST(WrapText, CharactersCountNotBytes) {
  std::string word;
  for (int i = 0; i < 48; ++i) word += "\xc3\xa9";
  EXPECT_EQ(TextWidth(word), 48u);
  EXPECT_EQ(WrapText(word + " " + word, 4), word + " " + word + "\n");
  EXPECT_EQ(WrapText(word + " " + word + " abcd", 4), word + " " + word + "\n    abcd\n");
}

TEST(WrapText, LinesAreParagraphsOfTheirOwn) {
  const std::string long_word(60, 'x');
  EXPECT_EQ(WrapLines("head:\n  " + long_word + " " + long_word + "\n\nend"),
            "head:\n  " + long_word + "\n      " + long_word + "\n\nend\n");
  EXPECT_EQ(WrapLines(""), "");
}

}  // namespace
}  // namespace shoal
