#include "worker/library/network_card.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace shoal {
namespace {

bool IsTcp(const std::string& transports) { return transports == "tcp"; }

// With RDMA the devices that carry payload have a port ("mlx5_0:1"); one without is for the sockets beside them.
std::vector<std::string> CardsOf(const std::string& devices, bool is_tcp) {
  std::vector<std::string> cards;
  for (std::string& device : std::vector<std::string>(absl::StrSplit(devices, ','))) {
    const bool carries = is_tcp ? device != "lo" : device.find(':') != std::string::npos;
    if (carries) cards.push_back(std::move(device));
  }
  return cards;
}

// As many as if the ranks were dealt evenly and none had more than the busiest card has.
uint32_t CountCards(const std::vector<std::string>& dealt, const std::string& transports, uint64_t local_world_size) {
  const bool is_tcp = IsTcp(transports);
  if (dealt.size() == 1) return std::max<uint32_t>(1, static_cast<uint32_t>(CardsOf(dealt.front(), is_tcp).size()));
  std::map<std::string, double> ranks_of_card;
  double busiest = 0;
  for (uint64_t entry = 0; entry < dealt.size(); ++entry) {
    const auto first_rank_of = [&](uint64_t i) { return (i * local_world_size + dealt.size() - 1) / dealt.size(); };
    const auto ranks = static_cast<double>(first_rank_of(entry + 1) - first_rank_of(entry));
    const std::vector<std::string> cards = CardsOf(dealt[entry], is_tcp);
    if (cards.empty()) return 1;
    for (const std::string& card : cards) {
      busiest = std::max(busiest, ranks_of_card[card] += ranks / static_cast<double>(cards.size()));
    }
  }
  return std::max<uint32_t>(1, static_cast<uint32_t>(static_cast<double>(local_world_size) / busiest));
}

}  // namespace

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
    if (IsTcp(transports)) {
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
  const uint64_t own = dealt.size() == 1 ? 0 : uint64_t{local_rank} * dealt.size() / local_world_size;
  return NetworkCard{.devices = dealt[own], .card_count = CountCards(dealt, transports, local_world_size)};
}

}  // namespace shoal
