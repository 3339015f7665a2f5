// Compiled once per instruction set; the first compilation chooses among them. See sgd.h.
#include "sgd.h"

namespace gluonops {

GLUONOPS_OF_EVERY_TARGET(void run_sgd_update(const SgdCall &call);)

namespace GLUONOPS_TARGET {

void run_sgd_update(const SgdCall &call) { sgd_update(call); }

}  // namespace GLUONOPS_TARGET

#ifdef GLUONOPS_ENTRY
void update_parameters(const SgdCall &call) { GLUONOPS_BEST(run_sgd_update(call)); }
#endif

}  // namespace gluonops
