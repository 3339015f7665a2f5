// center_loss, a warp or a block per sample, and in backward also one per class. Bytes moved: forward the features
// and as many of the centres; backward the features twice, written once, and the centres read and written once.
//
// In backward every class looks through the labels for its samples, and adds them up in their order: no atomics, so
// the same batch gives the same bits. Most classes of many have none, and are done after that one look.

template <typename T, typename L>
__global__ void __launch_bounds__(512, 1)
center_loss_forward(const T *__restrict__ data, const L *__restrict__ label, const T *__restrict__ centers,
                    T *__restrict__ output, int output_request, int64_t batch, int64_t classes, int64_t features)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t r = first_row(); r < batch; r += row_step()) {
        const Row row(r, features, 1);
        const int64_t named = class_of(label, r, classes, false, 0);
        A loss = not_a_number<A>();
        if (named != NO_CLASS) {
            const int64_t behind = row.start - named * features;   // from an element of the centre to the sample's
            A sum = 0;
            for (int64_t i = row.first; i < row.end; i += row.step) {
                const A distance = load(data, i) - load(centers, i - behind);
                sum += distance * distance;
            }
            loss = across_row(sum, Sum()) / 2;
        }
        if (threadIdx.x == 0)
            store(output, r, loss, output_request);
    }
}

template <typename T, typename L>
__global__ void __launch_bounds__(512, 1)
center_loss_backward(const T *__restrict__ output_grad, const T *__restrict__ data, const L *__restrict__ label,
                     const T *__restrict__ centers, T *__restrict__ data_grad, T *__restrict__ centers_grad,
                     int data_grad_request, int centers_grad_request, int64_t batch, int64_t classes,
                     int64_t features)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t r = first_row(); r < batch + classes; r += row_step()) {
        if (r < batch) {
            if (data_grad_request == NOTHING)
                continue;
            const Row row(r, features, 1);
            const int64_t named = class_of(label, r, classes, false, 0);
            const int64_t behind = row.start - named * features;
            const A head = load(output_grad, r);
            for (int64_t i = row.first; i < row.end; i += row.step) {
                const A grad = named == NO_CLASS ? not_a_number<A>()
                                                 : head * (load(data, i) - load(centers, i - behind));
                store(data_grad, i, grad, data_grad_request);
            }
            continue;
        }
        if (centers_grad_request == NOTHING)
            continue;
        const Row row(r - batch, features, 1);
        const double mine = double(r - batch);
        A found = 0;
        for (int64_t b = threadIdx.x; b < batch; b += blockDim.x)
            found += A(double(load(label, b)) == mine);
        found = across_row(found, Sum());
        for (int64_t i = row.first; i < row.end; i += row.step) {
            A sum = 0;
            if (found > 0) {
                const A center = load(centers, i);
                const int64_t feature = i - row.start;
                for (int64_t b = 0; b < batch; ++b)
                    if (double(load(label, b)) == mine)
                        sum += load(output_grad, b) * (center - load(data, b * features + feature));
            }
            store(centers_grad, i, sum, centers_grad_request);
        }
    }
}
