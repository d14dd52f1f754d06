// The settings of UCX that can only be given by environment variables, because UCX reads them when it is loaded.
//
// They keep UCX from what a program or a Python process that hosts it should not have done behind its back: signal
// handlers for SIGSEGV and the like, patched mmap and munmap, lines on the standard output. And they lift UCX 1.13's
// limit of 1024 connections a worker. Nothing breaks without them. What the operator has set is left alone.
#ifndef SHOAL_NET_UCX_UCX_ENVIRONMENT_H_
#define SHOAL_NET_UCX_UCX_ENVIRONMENT_H_

#include <span>

namespace shoal {

struct UcxEnvironmentSetting {
  const char* name;
  const char* value;
};

// For a process that loads UCX later (Python before it loads libshoal.so): set these that are not set.
std::span<const UcxEnvironmentSetting> UcxEnvironment();

// For a main that is linked with UCX: call it first thing, with main's argv, while there is one thread. Sets what is
// missing and, as UCX has read its environment by then, starts the program again in the same process (execv). Returns
// when there was nothing to set, or when the program could not be started again (it goes on with UCX's defaults).
void PrepareUcxEnvironment(char** argv);

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_ENVIRONMENT_H_
