// The options of a process group of backend "shoal": what may differ from group to group.
//
// Derived from c10d's, so that torch can hand them around, copy them for a group that is split off, and set name, ranks
// and timeout. Threads: as any value. Ownership: intrusive.
#ifndef SHOAL_PYTORCH_SRC_GROUP_OPTIONS_H_
#define SHOAL_PYTORCH_SRC_GROUP_OPTIONS_H_

#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace shoal::pytorch {

struct GroupOptions : c10d::Backend::Options {
  explicit GroupOptions(std::optional<std::string> wire = std::nullopt,
                        std::optional<std::string> node_reduce = std::nullopt,
                        c10::intrusive_ptr<c10d::Backend::Options> inner = nullptr, uint32_t min_ranks = 0,
                        bool scale_sums = false, bool whole_op = false, bool error_feedback = false)
      : Options("shoal"),
        wire(std::move(wire)),
        node_reduce(std::move(node_reduce)),
        inner(std::move(inner)),
        min_ranks(min_ranks),
        scale_sums(scale_sums),
        whole_op(whole_op),
        error_feedback(error_feedback) {}

  // Overrides where torch has it. The options of the inner backend are copied as well, since its creator sets name,
  // ranks and timeout there; a torch that can't copy them shares them.
  c10::intrusive_ptr<Options> clone() const {
    auto copy = c10::make_intrusive<GroupOptions>(*this);
    if (inner) copy->inner = CopyOf(inner);
    return copy;
  }

  std::optional<std::string> wire;         // of WIRES in config.py; none given: the setting SHOAL_WIRE
  std::optional<std::string> node_reduce;  // "auto", "off", "host" or "nccl"; none given: the setting SHOAL_NODE_REDUCE
  c10::intrusive_ptr<c10d::Backend::Options> inner;  // of the inner backend (NCCL or Gloo), or nullptr
  uint32_t min_ranks;                                // as shoal_group_options has it, and what follows
  bool scale_sums;
  bool whole_op;
  bool error_feedback;

 private:
  template <typename AnyOptions>
  static c10::intrusive_ptr<AnyOptions> CopyOf(const c10::intrusive_ptr<AnyOptions>& options) {
    if constexpr (requires { options->clone(); }) {
      return options->clone();
    } else {
      return options;
    }
  }
};

}  // namespace shoal::pytorch

#endif  // SHOAL_PYTORCH_SRC_GROUP_OPTIONS_H_
