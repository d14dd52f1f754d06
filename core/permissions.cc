#include "core/permissions.h"

#include <array>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shoal {
namespace {

constexpr std::array<char, kRoles.size()> kLetters = {'v', 'o', 's', 'w', 'S'};

constexpr bool kAudited = true;

constexpr std::array<Permission, 27> kTable = {{
    {"/shoal.v1.Scheduler/RegisterServer", "s", kAudited},
    {"/shoal.v1.Scheduler/HeartbeatServer", "s"},
    {"/shoal.v1.Scheduler/DeregisterServer", "s", kAudited},
    {"/shoal.v1.Scheduler/JoinJob", "w", kAudited},
    {"/shoal.v1.Scheduler/JoinGroup", "w", kAudited},
    {"/shoal.v1.Scheduler/CloseGroups", "w", kAudited},
    {"/shoal.v1.Scheduler/HeartbeatWorker", "w"},
    {"/shoal.v1.Scheduler/LeaveJob", "w", kAudited},
    {"/shoal.v1.Scheduler/ReportServer", "w", kAudited},
    {"/shoal.v1.Scheduler/GetTicket", "ow", kAudited},
    {"/shoal.v1.Scheduler/SendTrace", "sw"},
    {"/shoal.v1.Scheduler/SendFlightRecord", "sw"},
    {"/shoal.v1.Scheduler/Watch", "w"},
    {"/shoal.v1.Status/GetCluster", "voS"},
    {"/shoal.v1.Status/ListServers", "voS"},
    {"/shoal.v1.Status/ListJobs", "voS"},
    {"/shoal.v1.Status/GetShardMap", "voS"},
    {"/shoal.v1.Status/ListEvents", "voS"},
    {"/shoal.v1.Status/GetTrace", "vo"},
    {"/shoal.v1.Status/GetFlightRecords", "vo"},
    {"/shoal.v1.Admin/DrainServer", "o", kAudited},
    {"/shoal.v1.Admin/UndrainServer", "o", kAudited},
    {"/shoal.v1.Admin/EvictServer", "o", kAudited},
    {"/shoal.v1.Admin/AbortJob", "o", kAudited},
    {"/shoal.v1.Admin/TraceJob", "o", kAudited},
    {"/grpc.health.v1.Health/", "voswS"},
    {"/grpc.reflection.", "vo"},
}};

}  // namespace

std::span<const Permission> AllPermissions() { return kTable; }

const Permission* FindPermission(absl::string_view method) {
  for (const Permission& row : kTable) {
    const bool is_many = row.method.back() == '/' || row.method.back() == '.';
    if (is_many ? absl::StartsWith(method, row.method) : method == row.method) return &row;
  }
  return nullptr;
}

absl::Status CheckPermission(const Caller& caller, absl::string_view method) {
  const Permission* const row = FindPermission(method);
  std::vector<absl::string_view> takes;
  for (const Role role : kRoles) {
    if (row == nullptr || row->roles.find(kLetters[static_cast<size_t>(role)]) == absl::string_view::npos) continue;
    if (role == caller.role) return absl::OkStatus();
    takes.push_back(RoleName(role));
  }
  return absl::PermissionDeniedError(
      absl::StrCat(CallerText(caller), " may not call ", method, "; ",
                   takes.empty() ? "nobody may" : absl::StrCat("it takes the role ", absl::StrJoin(takes, " or "))));
}

}  // namespace shoal
