#include "cli/changes.h"

#include "absl/strings/str_cat.h"
#include "cli/tables.h"

namespace shoal::cli {
namespace {

std::string Text(const std::string& server, const v1::UndrainServerResponse& answer) {
  return absl::StrCat("server ", server,
                      answer.was_draining() ? " is asked to stay; it takes groups in when it has heard of it\n"
                                            : " was not draining\n");
}

std::string Text(const std::string& server, const v1::EvictServerResponse& answer) {
  std::string text = absl::StrCat("server ", server, " is evicted; its process ends when it hears of it\n");
  if (answer.groups_kept() > 0) {
    absl::StrAppend(&text, "WARNING: ", Plural(answer.groups_kept(), "open group"),
                    " of it can't move yet: their ranks wait until other servers have room for them\n");
  }
  return text;
}

std::string Text(const std::string& job, const v1::AbortJobResponse& answer) {
  return absl::StrCat("job ", job, " is aborted: ", Plural(answer.groups_failed(), "open group"), " of ",
                      Plural(answer.live_ranks(), "live rank"), " failed\n");
}

template <typename Answer>
absl::Status Show(const std::string& name, const absl::StatusOr<Answer>& answer, bool json, std::ostream& out) {
  if (!answer.ok()) return answer.status();
  out << (json ? ToJson(*answer) + "\n" : Text(name, *answer));
  return absl::OkStatus();
}

}  // namespace

absl::Status Undrain(const std::string& server, bool json, ClusterClient* client, std::ostream& out) {
  return Show(server, client->UndrainServer(server), json, out);
}

absl::Status Evict(const std::string& server, bool json, ClusterClient* client, std::ostream& out) {
  return Show(server, client->EvictServer(server), json, out);
}

absl::Status Abort(const std::string& job, const std::string& reason, bool json, ClusterClient* client,
                   std::ostream& out) {
  return Show(job, client->AbortJob(job, reason), json, out);
}

}  // namespace shoal::cli
