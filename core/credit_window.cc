#include "core/credit_window.h"

namespace shoal {

void CreditWindow::Open(uint32_t credit) {
  oldest_ = 0;
  next_ = 0;
  finished_.assign(credit, false);
}

uint64_t CreditWindow::Push() { return next_++; }

void CreditWindow::Finish(uint64_t position) {
  finished_[position % finished_.size()] = true;
  while (oldest_ < next_ && finished_[oldest_ % finished_.size()]) {
    finished_[oldest_ % finished_.size()] = false;
    ++oldest_;
  }
}

}  // namespace shoal
