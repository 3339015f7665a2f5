// See batch_norm.h. Compiled once per instruction set; the first compilation chooses among them.
#include "batch_norm.h"

#ifdef GLUONOPS_ENTRY
#include <vector>
#endif

namespace gluonops {

GLUONOPS_OF_EVERY_ISA(void run_norm(const NormForward &call, const NormMemory &memory);
                      void run_norm(const NormBackward &call, const NormMemory &memory);)

namespace GLUONOPS_ISA {

void run_norm(const NormForward &call, const NormMemory &memory) { run(call, memory); }
void run_norm(const NormBackward &call, const NormMemory &memory) { run(call, memory); }

}  // namespace GLUONOPS_ISA

#ifdef GLUONOPS_ENTRY
namespace {

template <typename Call>
void run_best(const Call &call)
{
    const Planes &size = call.size;
    std::vector<double> sums(size_t(base::Cut(size).items() * SUMS * size.lanes));
    std::vector<float> factors(size_t(size.planes * FACTORS));
    const NormMemory memory = {sums.data(), factors.data()};
#ifdef GLUONOPS_ALL_ISAS
    // With AVX-512, GCC 12's code for these blocks is less accurate where the mean is far from zero. Why is not known.
    // oneDNN has such blocks here only if it is told to leave AVX-512 alone (DNNL_MAX_CPU_ISA).
    if (isa() == AVX512 && size.lanes == 8)
        return avx2::run_norm(call, memory);
#endif
    GLUONOPS_BEST(run_norm(call, memory));
}

}  // namespace

void norm_forward(const NormForward &call) { run_best(call); }
void norm_backward(const NormBackward &call) { run_best(call); }

// No instruction set has much that helps.
void copy_to_blocks(const Planes &size, const float *plain, float *blocked) { base::to_blocks(size, plain, blocked); }
#endif

}  // namespace gluonops
