// What the scheduler is still to be told, oldest first. Of too much the newest is kept. Pure.
#ifndef SHOAL_WORKER_MEMBERSHIP_UNTOLD_H_
#define SHOAL_WORKER_MEMBERSHIP_UNTOLD_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

namespace shoal {

template <typename What>
class Untold {
 public:
  // As many groups as a job may have open.
  static constexpr size_t kMostKept = 16384;

  void Add(What what) {
    waiting_.push_back(std::move(what));
    if (waiting_.size() <= kMostKept) return;
    waiting_.pop_front();
    under_way_ -= std::min<size_t>(under_way_, 1);
  }
  bool empty() const { return waiting_.empty(); }
  // The oldest ones, for a call that begins.
  std::vector<What> StartTelling(size_t most) {
    under_way_ = std::min(waiting_.size(), most);
    return {waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(under_way_)};
  }
  // The scheduler has heard them, or never will.
  void DropUnderWay() {
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(std::exchange(under_way_, 0)));
  }
  std::vector<What> Newest(size_t most) const {
    return {waiting_.end() - static_cast<ptrdiff_t>(std::min(waiting_.size(), most)), waiting_.end()};
  }
  void Clear() {
    waiting_.clear();
    under_way_ = 0;
  }

 private:
  std::deque<What> waiting_;
  size_t under_way_ = 0;  // the first ones: a call tells them now
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_UNTOLD_H_
