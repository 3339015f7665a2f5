// center_loss on the CPU. Bytes moved: forward the features and as many of the centres; backward the features twice,
// written once, and the centres read and written once.
//
// In backward the samples of every class are chained in their order, then each class adds up its own: what comes out
// does not depend on the number of threads.
#include "../../native/rows.h"

namespace gluonops {

const int64_t LAST_SAMPLE = -1;

struct CenterLossCall {
    int type;
    int64_t batch, classes, features;
    Labels labels;
    const void *data, *centers;
    void *output;                      // forward
    const void *output_grad;           // backward
    void *data_grad, *centers_grad;
    int64_t *first, *next;             // memory for the chains: a class's first sample, and the one after a sample
};

GLUONOPS_KERNEL(center_loss_forward, CenterLossCall)
GLUONOPS_KERNEL(center_loss_backward, CenterLossCall)

namespace GLUONOPS_TARGET {
namespace {

template <typename T>
void forward(const CenterLossCall &call)
{
    typedef typename Simd<T>::Scalar A;
    const CenterLossCall k = call;
    const int64_t features = k.features;
    const T *data = static_cast<const T *>(k.data), *centers = static_cast<const T *>(k.centers);
    T *output = static_cast<T *>(k.output);
    parallel_for(k.batch, 2 * features * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const int64_t named = class_of(k.labels, row, k.classes);
            if (named == NO_CLASS) {
                put(output + row, not_a_number<A>());
                continue;
            }
            const T *x = data + row * features, *c = centers + named * features;
            put(output + row, row_sum<T>(features, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
                const auto distance = load(x + i, lanes, A(0)) - load(c + i, lanes, A(0));
                return distance * distance;
            }) / 2);
        }
    });
}

template <typename T>
void data_gradient(const CenterLossCall &call)
{
    typedef typename Simd<T>::Scalar A;
    const CenterLossCall k = call;
    const int64_t features = k.features;
    const T *data = static_cast<const T *>(k.data), *centers = static_cast<const T *>(k.centers);
    const T *heads = static_cast<const T *>(k.output_grad);
    T *grads = static_cast<T *>(k.data_grad);
    parallel_for(k.batch, 3 * features * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const int64_t named = class_of(k.labels, row, k.classes);
            const A head = named == NO_CLASS ? not_a_number<A>() : get(heads + row);
            const T *x = data + row * features, *c = centers + (named == NO_CLASS ? 0 : named) * features;
            const bool found = named != NO_CLASS;
            write_row<false>(grads + row * features, features, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
                return found ? head * (load(x + i, lanes, A(0)) - load(c + i, lanes, A(0))) : all(head);
            });
        }
    });
}

template <bool PAST_CACHE, typename T>
void centers_gradient(const CenterLossCall &call)
{
    typedef typename Simd<T>::Scalar A;
    const CenterLossCall k = call;
    const int64_t features = k.features;
    const T *data = static_cast<const T *>(k.data), *centers = static_cast<const T *>(k.centers);
    const T *heads = static_cast<const T *>(k.output_grad);
    T *grads = static_cast<T *>(k.centers_grad);
    for (int64_t j = 0; j < k.classes; ++j)
        k.first[j] = LAST_SAMPLE;
    for (int64_t row = k.batch; row-- > 0;) {
        const int64_t named = class_of(k.labels, row, k.classes);
        if (named == NO_CLASS)
            continue;
        k.next[row] = k.first[named];
        k.first[named] = row;
    }
    parallel_for(k.classes, features * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; ++j) {
            const int64_t first = k.first[j];
            const T *c = centers + j * features;
            write_row<PAST_CACHE>(grads + j * features, features, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
                auto sum = all(A(0));
                if (first == LAST_SAMPLE)
                    return sum;
                const auto center = load(c + i, lanes, A(0));
                for (int64_t row = first; row != LAST_SAMPLE; row = k.next[row])
                    sum += get(heads + row) * (center - load(data + row * features + i, lanes, A(0)));
                return sum;
            });
        }
        fence();
    });
}

template <typename T>
void backward(const CenterLossCall &call)
{
    data_gradient<T>(call);
    const RowSizes sizes = {call.classes, call.features, 1};
    if (past_cache<T>(sizes))
        centers_gradient<true, T>(call);
    else
        centers_gradient<false, T>(call);
}

}  // namespace

void center_loss_forward(const CenterLossCall &call)
{
    switch (call.type) {
    case FLOAT16: return forward<Half>(call);
    case FLOAT32: return forward<float>(call);
    default: return forward<double>(call);
    }
}

void center_loss_backward(const CenterLossCall &call)
{
    switch (call.type) {
    case FLOAT16: return backward<Half>(call);
    case FLOAT32: return backward<float>(call);
    default: return backward<double>(call);
    }
}

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#ifdef GLUONOPS_REGISTER
#include "../../native/operator.h"

namespace gluonops {
namespace {

struct CenterLoss : Contract {
    static constexpr const char *NAME = "center_loss";
    struct Attrs {};
    static std::vector<const char *> attributes() { return {}; }
    static Attrs parse(const Attributes &) { return {}; }
    static Tensors tensors(const Attrs &)
    {
        return {{"data", 'T'}, {"label", 'L'}, {"centers", 'T'}, {"output", 'T'}};
    }
    enum { INPUTS = 3, OUTPUTS = 1 };
    static const std::vector<int> &types() { return floats(); }
    static Shapes shapes(const Attrs &, const std::vector<int> &)
    {
        const Dim batch("batch"), classes("classes"), features("features");
        return {{{batch, features}, {batch}, {classes, features}, {batch}}, {}};
    }
    static CenterLossCall call(Arrays inputs)
    {
        CenterLossCall made = {};
        made.type = inputs[0].dtype;
        made.batch = inputs[0].shape[0];
        made.classes = inputs[2].shape[0];
        made.features = inputs[0].shape[1];
        made.labels = labels_of(inputs[1], {false, 0});
        made.data = inputs[0].data_ptr;
        made.centers = inputs[2].data_ptr;
        return made;
    }
    static void forward(const Attrs &, Arrays inputs, Arrays outputs)
    {
        CenterLossCall made = call(inputs);
        check_labels(NAME, "label", inputs[1].shape, made.labels, made.classes, false);
        made.output = outputs[0].data_ptr;
        center_loss_forward(made);
    }
    static void backward(const Attrs &, Arrays grads, Arrays inputs, Arrays, Arrays results)
    {
        CenterLossCall made = call(inputs);
        std::vector<int64_t> first(size_t(made.classes)), next(size_t(made.batch));
        made.output_grad = grads[0].data_ptr;
        made.data_grad = results[0].data_ptr;
        made.centers_grad = results[2].data_ptr;
        made.first = first.data();
        made.next = next.data();
        center_loss_backward(made);
        clear(results[1]);
    }
};

GLUONOPS_REGISTER_OP(gluonops_center_loss, CenterLoss)

}  // namespace
}  // namespace gluonops
#endif
