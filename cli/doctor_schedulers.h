// What the doctor says of schedulers: who answers, of which cluster, who leads, whether the state is saved. Pure.
#ifndef SHOAL_CLI_DOCTOR_SCHEDULERS_H_
#define SHOAL_CLI_DOCTOR_SCHEDULERS_H_

#include "cli/doctor.h"
#include "cli/doctor_findings.h"

namespace shoal::cli {

// False: no scheduler answered, so that nothing is known of the cluster.
bool JudgeSchedulers(const Examination& seen, Findings* findings);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_DOCTOR_SCHEDULERS_H_
