// What a server says and logs about a group. Pure functions; any thread.
#ifndef SHOAL_SERVER_MACHINE_GROUP_NOTES_H_
#define SHOAL_SERVER_MACHINE_GROUP_NOTES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/frame.h"
#include "core/op_ledger.h"
#include "server/machine/server_actions.h"
#include "server/machine/server_group.h"

namespace shoal {

// Logs an event about a group, and perhaps one rank of it.
void LogGroup(EventKind kind, const ServerGroup& group, std::optional<Rank> rank, std::string_view text,
              ServerActions* actions);

// Sends `note` with `text` to all ranks that are present. Its group and epoch are filled in.
void TellAll(const ServerGroup& group, FrameHeader note, std::string_view text, ServerActions* actions);

// Tells the rank, once in an epoch, that its op can't be done in it, if a rank that does not call the op has left.
void TellOfLeaver(ServerGroup* group, OpNumber op, Rank rank, ServerActions* actions);

// Tells all ranks the commit watermark, when it is time to.
void AnnounceCommit(ServerGroup* group, ServerActions* actions);

// Asks a rank whether it has the result of the slot's chunk, if it may have.
void AskForResult(const ServerGroup& group, uint32_t slot, Rank rank, ServerActions* actions);

// Which ranks disagree about an op, and on what.
std::string DescribeMismatch(const ServerGroup& group, const OpRecord& record, const FrameHeader& push);

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_GROUP_NOTES_H_
