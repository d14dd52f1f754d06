// How an audit says who made a call and how it ended. Pure; any thread.
#ifndef SHOAL_CORE_CALL_FACTS_H_
#define SHOAL_CORE_CALL_FACTS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/caller.h"
#include "core/log_event.h"

namespace shoal {

// Of a call whose outcome is not known yet. `method`: "/shoal.v1.Admin/DrainServer".
CallFacts FactsOf(const Caller& caller, const std::string& from, absl::string_view method);
// "ok", or "NOT_FOUND: no server is named ...", made printable and cut to a few hundred bytes.
void SetOutcome(const absl::Status& outcome, CallFacts* call);

EventKind KindOf(const CallFacts& call);
// "spiffe://a.example/shoal/operator (operator)", "anybody"
std::string WhoText(const CallFacts& call);
// "DrainServer of server "alpha" from 10.0.0.7:51234: ok"
std::string CallText(const CallFacts& call);

}  // namespace shoal

#endif  // SHOAL_CORE_CALL_FACTS_H_
