#include "worker/library/network_card.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace shoal {

absl::StatusOr<NetworkCard> ChooseNetworkCard(const std::string& devices, const std::string& transports,
                                              uint32_t local_rank, uint32_t local_world_size) {
  const auto refusal = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("network device \"", devices, "\": ", why));
  };
  const std::vector<std::string> dealt = absl::StrSplit(devices, '/');
  if (dealt.size() > 1) {
    if (std::ranges::any_of(dealt, [](const std::string& card) { return card.empty(); })) {
      return refusal(
          "a name is missing beside a slash; give the device of each card of the node, such as mlx5_0:1/mlx5_1:1");
    }
    if (transports == "tcp") {
      return refusal(absl::StrCat(
          "over TCP the kernel's routes choose the card of a connection, so ranks can't be dealt over cards; give each "
          "card a network of its own with a part of the servers in it, and name the devices with commas: ",
          absl::StrReplaceAll(devices, {{"/", ","}})));
    }
    if (local_rank >= local_world_size) {
      const std::string reason =
          local_world_size == 0
              ? "it is not known which one this is"
              : absl::StrCat("local rank ", local_rank, " is not below the local world size, ", local_world_size);
      return refusal(absl::StrCat("the ranks of a node are dealt over these devices, but ", reason,
                                  "; set LOCAL_RANK and LOCAL_WORLD_SIZE as torchrun does, or name one device"));
    }
  }
  std::set<std::string> cards;
  const uint64_t used = dealt.size() == 1 ? 1 : std::min<uint64_t>(local_world_size, dealt.size());
  for (uint64_t i = 0; i < used; ++i) {
    const std::vector<std::string> together = absl::StrSplit(dealt[i * dealt.size() / used], ',');
    cards.insert(together.begin(), together.end());
  }
  const uint64_t own = dealt.size() == 1 ? 0 : uint64_t{local_rank} * dealt.size() / local_world_size;
  return NetworkCard{.devices = dealt[own], .card_count = static_cast<uint32_t>(cards.size())};
}

}  // namespace shoal
