// libshoal.so exports the functions of its public header, all of them and nothing else, with the ABI's version.
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
  std::smatch version;
  EXPECT_TRUE(std::regex_search(header, version, std::regex(R"(#define SHOAL_ABI_VERSION (\d+))")));
  const std::regex declaration(R"(SHOAL_API [^;(]*?\b(shoal_\w+)\()");
  std::set<std::string> functions;
  for (std::sregex_iterator it(header.begin(), header.end(), declaration), end; it != end; ++it) {
    functions.insert((*it)[1].str() + "@@SHOAL_" + version[1].str());
  }
  return functions;
}

std::set<std::string> ExportedSymbols() {
  std::set<std::string> symbols;
  FILE* lines = popen(SHOAL_NM " -D --defined-only --format=posix " SHOAL_LIBRARY, "r");
  char line[1024];
  while (lines != nullptr && std::fgets(line, sizeof(line), lines) != nullptr) {
    std::istringstream words(line);
    std::string symbol, type;
    words >> symbol >> type;
    if (type != "A") symbols.insert(symbol);  // the version itself is such a one
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
