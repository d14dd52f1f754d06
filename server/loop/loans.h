// The contributions that a server sums where they are, in memory that its peers lend it.
//
// Keyed by the place in slot memory where the contribution would have been copied to. One thread. No allocation once
// as many loans and jobs as ever have been open at a time, except in Forget.
#ifndef SHOAL_SERVER_LOOP_LOANS_H_
#define SHOAL_SERVER_LOOP_LOANS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "net/lending.h"
#include "server/machine/server_actions.h"

namespace shoal {

class Loans {
 public:
  // `lender` may be null: nothing is lent then. It outlives the object.
  explicit Loans(PayloadLender* lender) : lender_(lender) {}
  // Returns what is still borrowed. No job may be running.
  ~Loans();
  Loans(const Loans&) = delete;
  Loans& operator=(const Loans&) = delete;

  // Borrows an offer for the place `offset`, if the transport can lend it.
  bool Take(OfferId offer, uint64_t offset);

  // The inputs of a reduction in rank order: what was lent, the rest in slot memory. Valid until EndJob with its token.
  std::span<const std::byte* const> StartJob(const ReduceAction& action, std::span<const std::byte> slot_memory);
  // Returns what the job with this token borrowed.
  void EndJob(uint64_t token);

  // Returns what was borrowed for places in [offset, offset + bytes) and is in no job.
  void Forget(uint64_t offset, uint64_t bytes);

 private:
  struct Loan {
    OfferId offer;
    const std::byte* data = nullptr;
  };
  struct Job {
    std::vector<const std::byte*> inputs;
    std::vector<OfferId> borrowed;
  };

  // Not in the order of a hash table, which differs from run to run.
  void ReturnInOrder(std::vector<OfferId> offers);

  PayloadLender* const lender_;
  absl::flat_hash_map<uint64_t, Loan> loans_;                 // by offset
  absl::flat_hash_map<uint64_t, std::unique_ptr<Job>> jobs_;  // by token
  std::vector<std::unique_ptr<Job>> free_jobs_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_LOOP_LOANS_H_
