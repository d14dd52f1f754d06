#include "cli/printable_buffer.h"

#include <ostream>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace shoal::cli {
namespace {

TEST(PrintableBufferTest, WhatATerminalObeysIsShownInstead) {
  std::ostringstream shown;
  {
    PrintableBuffer buffer(shown.rdbuf());
    std::ostream out(&buffer);
    out << "job \x1b]0;title\x07\n\tcol\rz\u00fcrich " << '\x9b' << "31m \u202e";
    out.flush();
    EXPECT_TRUE(out.good());
  }
  EXPECT_EQ(shown.str(), "job \\x1b]0;title\\x07\n\tcol\\x0dz\u00fcrich \\x9b31m \\xe2\\x80\\xae");
}

TEST(PrintableBufferTest, ACharacterMayComeInPieces) {
  std::ostringstream shown;
  {
    PrintableBuffer buffer(shown.rdbuf());
    std::ostream out(&buffer);
    for (const char byte : std::string("\u20ac\u202e\U0001f41f.\xe2")) out.put(byte);
  }
  EXPECT_EQ(shown.str(), "\u20ac\\xe2\\x80\\xae\U0001f41f.\\xe2");
}

}  // namespace
}  // namespace shoal::cli
