#include "sim/rogue_process.h"

#include "core/frame.h"

namespace shoal::sim {

RogueProcess::RogueProcess(World* world, const Profile& profile, SimNetwork* network, const WireAudit* audit,
                           const std::string& server_address)
    : SimProcess(world, "rogue", profile),
      audit_(audit),
      server_address_(server_address),
      payload_(64 << 10),
      transport_(network->MakeTransport(name(), /*listen=*/false, [this] { Wake(); })) {
  transport_->BeStranger();
  transport_->Connect(server_address_).IgnoreError();
}

std::vector<std::byte> RogueProcess::Garbage(size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(world().random().Next());
  return bytes;
}

void RogueProcess::SendSomething(PeerId peer) {
  Random& random = world().random();
  FrameHeader header;
  header.type = static_cast<FrameType>(random.Between(1, 13));
  header.group = audit_->AnyGroup(random.Next());
  header.epoch = Epoch(random.Below(8));
  header.op = OpNumber(random.Between(1, 40));
  header.landed_watermark = OpNumber(random.Below(1000));
  header.commit_watermark = OpNumber(random.Below(1000));
  header.bucket_elements = random.Between(1, 100'000);
  header.chunk_elements = static_cast<uint32_t>(random.Between(1, header.bucket_elements));
  header.rank = Rank(static_cast<uint32_t>(random.Below(6)));
  switch (random.Below(4)) {
    case 0:
      transport_->SendNote(peer, Garbage(random.Between(1, kMaxNoteBytes))).IgnoreError();
      return;
    case 1: {
      GroupToken token{.group = header.group,
                       .epoch = header.epoch,
                       .rank = header.rank,
                       .group_size = 4,
                       .max_chunk_bytes = 1024,
                       .expires_at_unix_s = UINT64_MAX};
      header.type = FrameType::kHello;
      transport_->SendNote(peer, MakeHello(header, EncodeToken(token)).view()).IgnoreError();
      return;
    }
    case 2:
      transport_->SendNote(peer, MakeTextNote(header, "rogue").view()).IgnoreError();
      return;
    default: {
      if (random.Chance(700'000)) header.type = FrameType::kPush;
      // Nearly always a wrong one: it may end this connection and no other.
      if (random.Chance(100'000)) header.payload_crc32c = static_cast<uint32_t>(random.Next());
      const uint64_t fitting = header.payload_bytes();
      const uint64_t bytes =
          random.Chance(700'000) && fitting <= payload_.size() ? fitting : random.Between(1, payload_.size());
      transport_->Send(peer, EncodeHeader(header), std::span(payload_).first(bytes), ++tokens_).IgnoreError();
    }
  }
}

uint64_t RogueProcess::Run(Now now) {
  for (const TransportEvent& event : transport_->Poll()) {
    if (event.kind == TransportEventKind::kPeerDown) transport_->Connect(server_address_).IgnoreError();
    if (event.kind == TransportEventKind::kOffered) transport_->Decline(event.offer);
    if (event.kind != TransportEventKind::kPeerUp && event.kind != TransportEventKind::kNote) continue;
    for (uint64_t i = world().random().Below(4); i > 0; --i) SendSomething(event.peer);
  }
  return now.monotonic_ns + 200'000;
}

}  // namespace shoal::sim
