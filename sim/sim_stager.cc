#include "sim/sim_stager.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "worker/device/host_stager.h"

namespace shoal::sim {
namespace {

constexpr std::byte kGarbage{0x5b};

std::span<std::byte> DestinationOf(const DeviceCopy& copy) {
  if (copy.to_device()) return {copy.tensor, copy.codec.TensorBytes(copy.elements)};
  return {copy.place, copy.codec.WireBytes(copy.elements)};
}

bool OverlapInTensor(const DeviceCopy& a, const DeviceCopy& b) {
  const auto end = [](const DeviceCopy& copy) { return copy.tensor + copy.codec.TensorBytes(copy.elements); };
  return a.ticket == b.ticket && a.tensor < end(b) && b.tensor < end(a);
}

}  // namespace

SimStager::SimStager(World* world, uint64_t max_delay_ns, std::function<void()> wake,
                     std::function<void(const std::string&)> fail)
    : world_(world),
      max_delay_ns_(max_delay_ns),
      wake_(std::move(wake)),
      fail_(std::move(fail)),
      region_(static_cast<std::byte*>(std::calloc(StagingArena::kDefaultBytes, 1)), std::free),
      arena_(std::make_shared<StagingArena>(std::span(region_.get(), StagingArena::kDefaultBytes))),
      alive_(std::make_shared<SimStager*>(this)) {}

SimStager::~SimStager() { *alive_ = nullptr; }

void SimStager::FillWithGarbage(std::span<std::byte> memory) { std::ranges::fill(memory, kGarbage); }

void SimStager::Start(DeviceCopy copy) {
  for (const auto& [number, other] : under_way_) {
    if ((copy.to_device() || other.to_device()) && OverlapInTensor(copy, other)) {
      fail_("copies between a tensor on a device and host memory overlap (ownership)");
    }
  }
  FillWithGarbage(DestinationOf(copy));
  const uint64_t number = ++copies_;
  under_way_.emplace(number, std::move(copy));
  world_->After(DrawDelay(), [alive = alive_, number] {
    if (*alive != nullptr) (*alive)->End(number);
  });
}

void SimStager::End(uint64_t number) {
  const auto found = under_way_.find(number);
  if (found == under_way_.end()) return;
  const DeviceCopy copy = std::move(found->second);
  under_way_.erase(found);
  MoveElements(copy);
  next_.push_back({.token = copy.token, .status = absl::OkStatus()});
  wake_();
}

void SimStager::Abandon(GroupHandle group) {
  std::erase_if(under_way_, [&](const auto& entry) {
    if (entry.second.token.group != group) return false;
    next_.push_back(
        {.token = entry.second.token, .status = absl::AbortedError("the device did not end a copy in time")});
    return true;
  });
  wake_();
}

std::span<const DeviceCopyEnded> SimStager::Poll() {
  polled_.clear();
  std::swap(polled_, next_);
  return polled_;
}

}  // namespace shoal::sim
