#include "sim/fault.h"

namespace shoal::sim {

std::string_view FaultName(FaultKind kind) {
  switch (kind) {
#define X(name, text)   \
  case FaultKind::name: \
    return text;
    SHOAL_SIM_FAULTS(X)
#undef X
  }
  return "unknown";
}

}  // namespace shoal::sim
