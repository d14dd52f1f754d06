#include "worker/device/locked_region.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "gtest/gtest.h"

namespace shoal {
namespace {

// No stager has a region of that size.
constexpr uint64_t kPages = 3;
constexpr uint64_t kBytes = kPages * 4096;

TEST(LockedRegionTest, WhatIsGivenBackIsOneTakersAndStaysRegistered) {
  LockedRegion region = LockedRegion::Take(kBytes).value();
  EXPECT_EQ(region.memory.size(), kBytes);
  region.is_registered = true;
  LockedRegion::GiveBack(region);
  const LockedRegion next = LockedRegion::Take(kBytes).value();
  EXPECT_EQ(next.memory.data(), region.memory.data());
  EXPECT_TRUE(next.is_registered);
  const LockedRegion another = LockedRegion::Take(kBytes).value();
  EXPECT_NE(another.memory.data(), region.memory.data());
  EXPECT_FALSE(another.is_registered);
  LockedRegion::GiveBack(next);
  EXPECT_NE(LockedRegion::Take(2 * kBytes).value().memory.data(), region.memory.data()) << "it has another size";
}

// A page that a child shares is copied when the parent writes to it, and devices would go on with the old one.
TEST(LockedRegionTest, AForkedChildHasNoPageOfIt) {
  const LockedRegion region = LockedRegion::Take(kBytes).value();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    unsigned char in_memory[kPages];
    const bool has_it = mincore(region.memory.data(), region.memory.size(), in_memory) == 0 || errno != ENOMEM;
    _exit(has_it ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

}  // namespace
}  // namespace shoal
