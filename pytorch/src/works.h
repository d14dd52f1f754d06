// The c10d::Work of several works of one coalescing block: complete when all of them are.
//
// Threads: the c10d::Work contract. Ownership: intrusive; shares its works.
#ifndef SHOAL_PYTORCH_SRC_WORKS_H_
#define SHOAL_PYTORCH_SRC_WORKS_H_

#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace shoal::pytorch {

class Works final : public c10d::Work {
 public:
  Works(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  // `timeout` (kNoTimeout: each work's own) is for all of them together. Throws the first error.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override;
  void abort() override;

 private:
  const std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

}  // namespace shoal::pytorch

#endif  // SHOAL_PYTORCH_SRC_WORKS_H_
