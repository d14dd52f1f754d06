// The settings of UCX that can only be given by environment variables, because UCX reads them when it is loaded.
//
// They keep UCX from doing things that a program or a Python process does not expect of a library: installing signal
// handlers for SIGSEGV and others, patching mmap and munmap, printing to standard output. They also raise UCX 1.13's
// limit of 1024 connections per worker. Nothing breaks without them. What the operator has set is not changed.
#ifndef SHOAL_NET_UCX_UCX_ENVIRONMENT_H_
#define SHOAL_NET_UCX_UCX_ENVIRONMENT_H_

#include <span>

namespace shoal {

struct UcxEnvironmentSetting {
  const char* name;
  const char* value;
};

// For a process that loads UCX later (as part of libshoal.so): set those of these that are not set.
std::span<const UcxEnvironmentSetting> UcxEnvironment();

// For a main that is linked with UCX: call it first thing, with main's argv, while there is one thread. Sets what is
// missing and, as UCX has read its environment by then, starts the program again in the same process (execv). Returns
// when there was nothing to set, or when the program could not be started again (it goes on with UCX's defaults).
void PrepareUcxEnvironment(char** argv);

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_ENVIRONMENT_H_
