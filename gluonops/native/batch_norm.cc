#include "batch_norm.h"

#include <mxnet/op_attr_types.h>
#include <nnvm/op.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "registration.h"

namespace gluonops {
namespace {

typedef std::chrono::steady_clock Clock;
typedef std::chrono::microseconds Microseconds;

// A call that nobody disturbs takes less than this, and so much for each byte of its data: a tenth of it on a desktop
// machine. One that waits for a thread that another process has displaced takes some of the system's time slices.
const Microseconds LONGEST(1000);
const int64_t BYTES_PER_MICROSECOND = 1000;

// For how long the calls run alone. It doubles if the first call afterwards has to wait again.
const std::chrono::milliseconds SHORTEST_AWAY(100), LONGEST_AWAY(3200);

class Policy {
public:
    bool is_alone() const { return Clock::now().time_since_epoch().count() < alone_until_.load(); }

    // Returns for how long the calls run alone from now on.
    Clock::duration note(int64_t bytes, Microseconds taken)
    {
        if (taken < LONGEST + Microseconds(bytes / BYTES_PER_MICROSECOND))
            return Clock::duration(0);
        const Clock::time_point now = Clock::now();
        const Clock::time_point last_end{Clock::duration(alone_until_.load())};
        const Clock::duration last_away(away_.load());
        const bool waits_again = last_away.count() && now - last_end < last_away + taken;
        const Clock::duration away = waits_again ? std::min<Clock::duration>(2 * last_away, LONGEST_AWAY)
                                                 : Clock::duration(SHORTEST_AWAY);
        away_.store(away.count());
        alone_until_.store((now + away).time_since_epoch().count());
        return away;
    }

private:
    std::atomic<Clock::rep> alone_until_{0}, away_{0};
};

Policy policy;
std::atomic<int64_t> calls_alone{0};

// Of the libgomp that MXNet uses.
int (*get_max_active_levels)();
void (*set_max_active_levels)(int);

// While it lives, the parallel regions of the calling thread have one thread. What omp_get_max_threads() says, by which
// oneDNN sizes the buffers that it keeps for later calls, stays the same.
class OneThread {
public:
    OneThread() : levels_(get_max_active_levels()) { set_max_active_levels(0); }
    ~OneThread() { set_max_active_levels(levels_); }
    OneThread(const OneThread &) = delete;

private:
    const int levels_;
};

mxnet::FComputeEx forward_of_mxnet, backward_of_mxnet;

// The first input has the size of the data: it is the data, or the head gradient.
template <const mxnet::FComputeEx *of_mxnet>
void compute(const nnvm::NodeAttrs &attrs, const mxnet::OpContext &context, const std::vector<mxnet::NDArray> &inputs,
             const std::vector<mxnet::OpReqType> &requests, const std::vector<mxnet::NDArray> &outputs)
{
    if (policy.is_alone()) {
        const OneThread only;
        ++calls_alone;
        (*of_mxnet)(attrs, context, inputs, requests, outputs);
        return;
    }
    const Clock::time_point start = Clock::now();
    (*of_mxnet)(attrs, context, inputs, requests, outputs);
    const int64_t bytes = inputs[0].shape().Size() * sizeof(float);
    policy.note(bytes, std::chrono::duration_cast<Microseconds>(Clock::now() - start));
}

// All arguments of these functions are references. So a std::function of them is the same in both of libstdc++'s ABIs.
template <mxnet::FComputeEx *of_mxnet>
void watch(const char *name)
{
    nnvm::Op *const op = find_op(name);
    *of_mxnet = nnvm::Op::GetAttr<mxnet::FComputeEx>("FComputeEx<cpu>").get(op, nullptr);
    if (*of_mxnet)
        op->set_attr<mxnet::FComputeEx>("FComputeEx<cpu>", compute<of_mxnet>, PRIORITY);
}

}  // namespace

bool watch_batch_norm()
{
    static const bool watching = [] {
        if (!honours_requests() || !find_in_mxnet("omp_get_max_active_levels", &get_max_active_levels) ||
            !find_in_mxnet("omp_set_max_active_levels", &set_max_active_levels))
            return false;
        watch<&forward_of_mxnet>("BatchNorm");
        watch<&backward_of_mxnet>("_backward_BatchNorm");
        return forward_of_mxnet && backward_of_mxnet;
    }();
    return watching;
}

int64_t note_batch_norm(int64_t bytes, int64_t microseconds)
{
    const Clock::duration away = policy.note(bytes, Microseconds(microseconds));
    return std::chrono::duration_cast<std::chrono::milliseconds>(away).count();
}

int64_t batch_norms_alone() { return calls_alone; }

}  // namespace gluonops
