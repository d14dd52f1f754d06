#include "process/node_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

constexpr char kBootIdPath[] = "/proc/sys/kernel/random/boot_id";
constexpr char kNamespacesPath[] = "/proc/self/ns";
constexpr size_t kMaxBootIdBytes = 64;  // a UUID has 36

std::string NetworkIdentityFrom(const std::string& boot_id_path, const std::string& namespaces_path) {
  const std::string boot_id = BootIdFrom(boot_id_path);
  struct stat network {};
  if (boot_id.empty() || stat((namespaces_path + "/net").c_str(), &network) != 0) return "";
  return absl::StrCat("boot ", boot_id, ", network namespace ", network.st_ino);
}

}  // namespace

std::string BootIdFrom(const std::string& path) {
  std::ifstream file(path);
  std::string id;
  if (!std::getline(file, id) || id.size() > kMaxBootIdBytes) return "";
  const bool is_id =
      std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isxdigit(c) != 0 || c == '-'; });
  return is_id ? id : "";
}

std::string NodeIdentityFrom(const std::string& boot_id_path, const std::string& namespaces_path) {
  const std::string network = NetworkIdentityFrom(boot_id_path, namespaces_path);
  struct stat users {};
  if (network.empty() || stat((namespaces_path + "/user").c_str(), &users) != 0) return "";
  return absl::StrCat(network, ", user ", geteuid(), " of namespace ", users.st_ino);
}

std::string NetworkIdentity() { return NetworkIdentityFrom(kBootIdPath, kNamespacesPath); }

std::string NodeIdentity() { return NodeIdentityFrom(kBootIdPath, kNamespacesPath); }

std::string BootId() { return BootIdFrom(kBootIdPath); }

}  // namespace shoal
