// libshoal.so exports the functions of its public header, all of them and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace {

std::set<std::string> DeclaredFunctions() {
  std::stringstream text;
  text << std::ifstream(SHOAL_HEADER).rdbuf();
  const std::string header = text.str();
  const std::regex declaration(R"(SHOAL_API [^;(]*?\b(shoal_\w+)\()");
  std::set<std::string> functions;
  for (std::sregex_iterator it(header.begin(), header.end(), declaration), end; it != end; ++it) {
    functions.insert((*it)[1]);
  }
  return functions;
}

std::set<std::string> ExportedSymbols() {
  std::set<std::string> symbols;
  FILE* lines = popen(SHOAL_NM " -D --defined-only --format=posix " SHOAL_LIBRARY, "r");
  char line[1024];
  while (lines != nullptr && std::fgets(line, sizeof(line), lines) != nullptr) {
    symbols.insert(std::string(line).substr(0, std::string(line).find(' ')));
  }
  EXPECT_TRUE(lines != nullptr && pclose(lines) == 0);
  return symbols;
}

TEST(LibraryTest, ExportsThePublicFunctionsAndNothingElse) {
  const std::set<std::string> declared = DeclaredFunctions();
  EXPECT_GE(declared.size(), 20u);
  EXPECT_THAT(ExportedSymbols(), testing::ContainerEq(declared));
}

}  // namespace
