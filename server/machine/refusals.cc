#include "server/machine/refusals.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace shoal {

void Refusals::Send(PeerId peer, FrameHeader reply, Refusal refusal, std::string_view text, ServerActions* actions) {
  ++counts_[static_cast<size_t>(refusal)];
  reply.type = FrameType::kRefuse;
  reply.refusal = refusal;
  actions->push_back(SendNoteAction{peer, MakeTextNote(reply, text)});
}

void Refusals::RefuseNote(PeerId peer, const FrameHeader& header, Refusal refusal, std::string_view text,
                          ServerActions* actions) {
  Send(peer, header, refusal, text, actions);
  const bool is_hello = header.type == FrameType::kHello;
  const EventIds ids{
      .job = groups_.JobOf(header.group), .group = header.group, .epoch = header.epoch, .rank = header.rank.value()};
  actions->push_back(LogAction(
      is_hello ? EventKind::kHelloRefused : EventKind::kMessageRefused, ids,
      absl::StrCat(std::string(FrameTypeName(header.type)),
                   is_hello ? "" : absl::StrCat(" of op ", header.op.value(), ", chunk ", header.chunk.value()), ": ",
                   std::string(RefusalName(refusal)), text.empty() ? "" : ": ", std::string(text))));
}

void Refusals::RefuseOffer(PeerId peer, OfferId offer, const FrameHeader& header, Refusal refusal,
                           std::string_view text, ServerActions* actions) {
  actions->push_back(DeclineAction{offer});
  RefuseNote(peer, header, refusal, text, actions);
}

void Refusals::CloseMalformed(PeerId peer, OfferId offer, const absl::Status& why, ServerActions* actions) {
  const Refusal refusal =
      why.code() == absl::StatusCode::kFailedPrecondition ? Refusal::kOtherVersion : Refusal::kMalformed;
  if (offer != OfferId(0)) actions->push_back(DeclineAction{offer});
  const std::string text(why.message());
  Send(peer, FrameHeader{}, refusal, text, actions);
  actions->push_back(
      LogAction(EventKind::kPeerClosed, {}, absl::StrCat(std::string(RefusalName(refusal)), ": ", text)));
  actions->push_back(ClosePeerAction{peer});
}

}  // namespace shoal
