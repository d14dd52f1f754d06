// The lending port: payloads that are read where they lie, in memory that this process can read already, without a
// copy.
//
// Thread: that of the transport which lends (Transport::lender()). Ownership: the memory stays the sender's or the
// transport's; the borrower reads it, and returns every loan before the transport is destroyed.
//
// What every implementation keeps (tests/conformance/transport/transport_loans.cc):
//   T9  What Borrow gave stays readable until Return, also after kPeerDown, and no event tells of it. Its bytes stay as
//       they are, unless the sender's program breaks its own memory. Return at another time is harmless.
#ifndef SHOAL_NET_LENDING_H_
#define SHOAL_NET_LENDING_H_

#include <cstddef>

#include "core/transport_event.h"

namespace shoal {

class PayloadLender {
 public:
  virtual ~PayloadLender() = default;

  // Takes an offer without a copy: the address of its payload. nullptr: this offer is not lent; it stands, use
  // Transport::Accept.
  virtual const std::byte* Borrow(OfferId offer) = 0;

  // Ends a loan, once. Ignored for an offer that is not lent.
  virtual void Return(OfferId offer) = 0;
};

}  // namespace shoal

#endif  // SHOAL_NET_LENDING_H_
