#include "process/node_identity.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr char kBootIdPath[] = "/proc/sys/kernel/random/boot_id";
constexpr char kNamespacesPath[] = "/proc/self/ns";

std::string FileWith(const std::string& name, const std::string& content) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path) << content;
  return path;
}

TEST(NodeIdentity, StaysTheSameAndFitsARequest) {
  EXPECT_EQ(NodeIdentity(), NodeIdentity());
  EXPECT_FALSE(NodeIdentity().empty());
  EXPECT_LT(NodeIdentity().size(), 200u);
  for (const unsigned char c : NodeIdentity()) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
}

TEST(NodeIdentity, AnotherBootOrNamespaceIsAnother) {
  const std::string other_boot = FileWith("other_boot_id", "0c2a4a3e-7b58-4f0e-9a52-6f1f1f8f2a11\n");
  EXPECT_FALSE(NodeIdentityFrom(other_boot, kNamespacesPath).empty());
  EXPECT_NE(NodeIdentityFrom(other_boot, kNamespacesPath), NodeIdentity());
  for (const std::string other : {"net", "user"}) {
    const std::string same = other == "net" ? "user" : "net";
    const std::string folder = ::testing::TempDir() + "other_" + other;
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
    std::ofstream(folder + "/" + other) << "";
    std::filesystem::create_symlink(std::string(kNamespacesPath) + "/" + same, folder + "/" + same);
    EXPECT_FALSE(NodeIdentityFrom(kBootIdPath, folder).empty());
    EXPECT_NE(NodeIdentityFrom(kBootIdPath, folder), NodeIdentity());
    std::filesystem::remove(folder + "/" + other);
    EXPECT_EQ(NodeIdentityFrom(kBootIdPath, folder), "") << "no " << other;
  }
}

TEST(NodeIdentity, WhatCannotBeReadIsUnknown) {
  EXPECT_EQ(NodeIdentityFrom("/nonexistent/boot_id", kNamespacesPath), "");
  EXPECT_EQ(NodeIdentityFrom(kBootIdPath, "/nonexistent"), "");
  EXPECT_EQ(NodeIdentityFrom(FileWith("empty_boot_id", "\n"), kNamespacesPath), "");
  EXPECT_EQ(NodeIdentityFrom(FileWith("no_boot_id", "not a boot id\n"), kNamespacesPath), "");
  EXPECT_EQ(NodeIdentityFrom(FileWith("long_boot_id", std::string(1000, 'a')), kNamespacesPath), "");
}

TEST(NodeIdentity, ThatOfTheNetworkIsAPartOfIt) {
  EXPECT_FALSE(NetworkIdentity().empty());
  EXPECT_EQ(NodeIdentity().substr(0, NetworkIdentity().size()), NetworkIdentity());
}

TEST(NodeIdentity, TheBootIdIsAPartOfIt) {
  EXPECT_NE(BootId(), "");
  EXPECT_NE(NodeIdentity().find(BootId()), std::string::npos);
  EXPECT_EQ(BootIdFrom(FileWith("other_boot_id", "0c2a4a3e-7b58-4f0e-9a52-6f1f1f8f2a11\n")),
            "0c2a4a3e-7b58-4f0e-9a52-6f1f1f8f2a11");
  EXPECT_EQ(BootIdFrom("/nonexistent/boot_id"), "");
}

TEST(NodeIdentity, AProcessInItsOwnNetworkNamespaceIsElsewhere) {
  const std::string here = NodeIdentity();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0) _exit(2);
    _exit(NodeIdentity() == here ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "making a network namespace needs root";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace shoal
