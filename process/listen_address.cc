#include "process/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/loopback_address.h"
#include "core/wait_report.h"
#include "process/clock.h"

namespace shoal {
namespace {

struct ListenAddress {
  std::string host;  // without the brackets of an IPv6 address
  std::string port;
};

absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& listen, const std::string& option) {
  const size_t colon = listen.rfind(':');
  const std::string port = colon == std::string::npos ? "" : listen.substr(colon + 1);
  uint32_t number = 0;
  const bool digits = std::all_of(port.begin(), port.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (colon == 0 || port.empty() || !digits || !absl::SimpleAtoi(port, &number) || number > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("the address \"", listen, "\" of ", option,
                                                   " is not of the form IP:PORT with a port from 0 to 65535"));
  }
  std::string host = listen.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return ListenAddress{host, port};
}

// Binds the address and closes it again, because gRPC itself would give the reason only in a line on stderr.
absl::Status TryToBind(const ListenAddress& address, const std::string& listen, const std::string& option) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("can't listen on ", listen, ": ", gai_strerror(error), "; give ", option, " IP:PORT"));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  const int probe = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool bound = false;
  int bind_error = errno;
  if (probe >= 0) {
    const int on = 1;
    setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    bound = bind(probe, found->ai_addr, found->ai_addrlen) == 0;
    bind_error = errno;
    close(probe);
  }
  if (bound) return absl::OkStatus();
  const std::string text = absl::StrCat("can't listen on ", listen, ": ", std::strerror(bind_error),
                                        "; give another address with ", option, " IP:PORT");
  return bind_error == EADDRINUSE ? absl::AlreadyExistsError(text) : absl::UnavailableError(text);
}

}  // namespace

absl::Status CheckListenAddress(const std::string& listen, const std::string& option) {
  const absl::StatusOr<ListenAddress> address = ParseListenAddress(listen, option);
  return address.ok() ? TryToBind(*address, listen, option) : address.status();
}

bool OthersMayReach(const std::string& listen) {
  return !IsLoopbackAddress(listen) && !absl::StartsWith(listen, "localhost:");
}

absl::Status CheckWhoReaches(const std::string& listen, bool insecure_network, const std::string& danger,
                             const std::string& option) {
  if (const auto address = ParseListenAddress(listen, option); !address.ok()) return address.status();
  if (insecure_network || !OthersMayReach(listen)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("other nodes may reach ", option, " ", listen, ", where ", danger,
                                                 ", or --insecure-network if nobody else is on the network"));
}

absl::Status CheckHttpAddress(const std::string& http, bool insecure_network) {
  if (absl::Status status = CheckWhoReaches(http, insecure_network,
                                            "everybody reads metrics and page; give an address of loopback", "--http");
      !status.ok()) {
    return status;
  }
  return CheckListenAddress(http, "--http");
}

absl::Status RetryWhileTaken(const std::function<absl::Status()>& attempt,
                             const std::function<void(std::string line)>& report,
                             const std::function<bool(uint64_t ns)>& pause) {
  const uint64_t since_ns = MonotonicNs();
  const uint64_t until_ns = since_ns + kListenPatienceNs;
  WaitReport wait(since_ns, until_ns);
  for (bool is_first = true;; is_first = false) {
    const absl::Status status = attempt();
    const uint64_t now_ns = MonotonicNs();
    if (!absl::IsAlreadyExists(status) || now_ns >= until_ns) return status;
    const bool is_due = wait.TakeDue(now_ns);
    if (is_first || is_due) {
      report(absl::StrCat(wait.WaitedFor("another process to end", now_ns), ": ", status.message()));
    }
    if (pause(kListenPauseNs)) {
      return absl::CancelledError(
          absl::StrCat("stopped while it waited for another process to end: ", status.message()));
    }
  }
}

absl::Status CannotListen(const std::string& listen, const std::string& option) {
  return absl::UnavailableError(
      absl::StrCat("can't listen on ", listen, "; give another address with ", option, " IP:PORT"));
}

std::string WithPort(const std::string& listen, int port) {
  return absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port);
}

}  // namespace shoal
