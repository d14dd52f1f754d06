// The address that a program listens on, checked before a library gets it that gives the reason only on stderr.
// Any thread.
#ifndef SHOAL_PROCESS_LISTEN_ADDRESS_H_
#define SHOAL_PROCESS_LISTEN_ADDRESS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "core/now.h"

namespace shoal {

// How long a program that starts waits for a process that still has its address: one that it replaces takes a moment to
// end, also after it has left the cluster.
inline constexpr uint64_t kListenPatienceNs = 10 * kNsPerS;
inline constexpr uint64_t kListenPauseNs = 100 * kNsPerMs;

// InvalidArgument: not "ip:port". AlreadyExists: another process listens there. Unavailable: it can't be listened on
// for another reason (it is not an address of this node). The texts name the `option` that it came from.
absl::Status CheckListenAddress(const std::string& listen, const std::string& option = "--listen");

// Whether other nodes may reach what listens there, as far as the text goes: which addresses this node has does not
// matter. Pure.
bool OthersMayReach(const std::string& listen);

// Where nobody is asked who he is. InvalidArgument: not "ip:port"; or other nodes may reach it, and it was not said
// that this may be (`insecure_network`). `danger` says what everybody can do there, and what else helps.
absl::Status CheckWhoReaches(const std::string& listen, bool insecure_network, const std::string& danger,
                             const std::string& option = "--listen");

// CheckWhoReaches and CheckListenAddress of --http, which asks nobody.
absl::Status CheckHttpAddress(const std::string& http, bool insecure_network);

// Does it again and again, until it returns something else than AlreadyExists or kListenPatienceNs are over. `report`
// gets a line when the wait begins, and now and then. `pause` waits for so long, and is true when the program is to
// stop: Cancelled.
absl::Status RetryWhileTaken(const std::function<absl::Status()>& attempt,
                             const std::function<void(std::string line)>& report,
                             const std::function<bool(uint64_t ns)>& pause);

// For the case that the library cannot listen nevertheless.
absl::Status CannotListen(const std::string& listen, const std::string& option = "--listen");

// `listen` with the port that is really used.
std::string WithPort(const std::string& listen, int port);

}  // namespace shoal

#endif  // SHOAL_PROCESS_LISTEN_ADDRESS_H_
