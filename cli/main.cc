// shoalctl: shows what a cluster is doing, and changes it.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>

#include "cli/shoalctl.h"

int main(int argc, char** argv) {
  const auto lookup = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  return shoal::cli::RunShoalctl({argv + 1, argv + argc}, lookup, std::cout, std::cerr, isatty(STDOUT_FILENO) == 1);
}
