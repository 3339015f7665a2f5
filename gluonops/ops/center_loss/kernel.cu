// center_loss, a warp or a block per sample, and in backward also one per class. Bytes moved: forward the features
// and as many of the centres; backward the features twice, written once, and the centres read and written once.
//
// In backward every class looks through the labels for its samples, and adds them up in their order. There are no
// atomics, so the same batch gives the same bits. Where classes are many, most have no sample, and are done after one
// look.
#include "../_labels/labels.cuh"

template <typename T, typename L>
__global__ void __launch_bounds__(512, 1)
center_loss_forward(const T *__restrict__ data, const L *__restrict__ label, const T *__restrict__ centers,
                    T *__restrict__ output, int output_request, int64_t batch, int64_t classes, int64_t features)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t sample = first_row(); sample < batch; sample += row_step()) {
        const Row row(sample, features, 1);
        const int64_t class_id = class_of(label, sample, classes, false, 0);
        A loss = not_a_number<A>();
        if (class_id != NO_CLASS) {
            const int64_t offset = row.start - class_id * features;   // of the sample from its centre
            A sum = 0;
            for (int64_t i = row.first; i < row.end; i += row.step) {
                const A difference = load(data, i) - load(centers, i - offset);
                sum += difference * difference;
            }
            loss = reduce_row(sum, Sum()) / 2;
        }
        if (threadIdx.x == 0)
            store(output, sample, loss, output_request);
    }
}

// The gradient of one sample's features.
template <typename T, typename L>
__device__ void data_gradient(const T *__restrict__ output_grad, const T *__restrict__ data,
                              const L *__restrict__ label, const T *__restrict__ centers, T *__restrict__ data_grad,
                              int request, int64_t sample, int64_t classes, int64_t features)
{
    typedef typename Accumulator<T>::type A;
    const Row row(sample, features, 1);
    const int64_t class_id = class_of(label, sample, classes, false, 0);
    const int64_t offset = row.start - class_id * features;
    const A head = load(output_grad, sample);
    for (int64_t i = row.first; i < row.end; i += row.step) {
        const A grad = class_id == NO_CLASS ? not_a_number<A>() : head * (load(data, i) - load(centers, i - offset));
        store(data_grad, i, grad, request);
    }
}

// The gradient of one class's centre.
template <typename T, typename L>
__device__ void center_gradient(const T *__restrict__ output_grad, const T *__restrict__ data,
                                const L *__restrict__ label, const T *__restrict__ centers,
                                T *__restrict__ centers_grad, int request, int64_t class_index, int64_t batch,
                                int64_t features)
{
    typedef typename Accumulator<T>::type A;
    const Row row(class_index, features, 1);
    const double class_id = double(class_index);
    A sample_count = 0;
    for (int64_t b = threadIdx.x; b < batch; b += blockDim.x)
        sample_count += A(double(load(label, b)) == class_id);
    sample_count = reduce_row(sample_count, Sum());
    for (int64_t i = row.first; i < row.end; i += row.step) {
        A sum = 0;
        if (sample_count > 0) {
            const A center = load(centers, i);
            const int64_t feature = i - row.start;
            for (int64_t b = 0; b < batch; ++b)
                if (double(load(label, b)) == class_id)
                    sum += load(output_grad, b) * (center - load(data, b * features + feature));
        }
        store(centers_grad, i, sum, request);
    }
}

template <typename T, typename L>
__global__ void __launch_bounds__(512, 1)
center_loss_backward(const T *__restrict__ output_grad, const T *__restrict__ data, const L *__restrict__ label,
                     const T *__restrict__ centers, T *__restrict__ data_grad, T *__restrict__ centers_grad,
                     int data_grad_request, int centers_grad_request, int64_t batch, int64_t classes,
                     int64_t features)
{
    for (int64_t r = first_row(); r < batch + classes; r += row_step()) {   // the samples, then the classes
        if (r < batch) {
            if (data_grad_request != NOTHING)
                data_gradient(output_grad, data, label, centers, data_grad, data_grad_request, r, classes, features);
        } else if (centers_grad_request != NOTHING) {
            center_gradient(output_grad, data, label, centers, centers_grad, centers_grad_request, r - batch, batch,
                            features);
        }
    }
}
