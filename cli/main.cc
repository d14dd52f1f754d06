// shoalctl: shows what a cluster is doing, and changes it.
#include <unistd.h>

#include <iostream>

#include "cli/shoalctl.h"

int main(int argc, char** argv) {
  return shoal::cli::RunShoalctl({argv + 1, argv + argc}, std::cout, std::cerr, isatty(STDOUT_FILENO) == 1);
}
