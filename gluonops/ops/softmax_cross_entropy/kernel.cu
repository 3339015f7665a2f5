// softmax_cross_entropy: 1 to 32 threads per row, a block, or several blocks, which need two steps. Each way a row is
// read once.
//
// A row's target is keep * label + spread: label is 1 at the class and 0 elsewhere where labels are sparse.

template <typename A>
struct Sums {   // over a row, or over a thread's part of one
    A max, exp, target, weighted;   // of exp(x - max), of the target, of target * (x - max)

    __device__ void raise(A top)
    {
        if (top > max) {
            exp *= exponential(max - top);
            if (target != 0)   // else max may still be so low that the difference is not finite
                weighted += target * (max - top);
            max = top;
        }
    }

    __device__ void add(Sums other)
    {
        raise(Largest()(other.max, max));
        other.raise(max);
        exp += other.exp;
        target += other.target;
        weighted += other.weighted;
    }
};

// With sparse labels the target is taken to be spread everywhere: the class is left to the caller.
template <typename T, typename L, typename A>
__device__ Sums<A> sums(const T *data, const L *label, const WideRow<T> &row, bool sparse, A keep, A spread,
                        int64_t index, const Shares<4> &shares)
{
    const bool targets = !sparse || spread > 0;
    Sums<A> all = {lowest<A>(), 0, 0, 0};
    for (int64_t i = row.first; i < row.end && !shares.taking(); i += row.step) {
        Items<T> x;
        x.read(data, row, i);
        all.raise(x.largest(row, i, all.max));
        if (targets) {
#pragma unroll
            for (int k = 0; k < WideRow<T>::ITEMS; ++k)
                if (row.has(i, k)) {
                    const A target = sparse ? spread : keep * A(load(label, row.at(i, k))) + spread;
                    all.target += target;
                    all.weighted += target * (x.values[k] - all.max);
                }
        }
        all.exp += x.exponentials(row, i, all.max, A(1));
    }
    for (int block = threadIdx.x; block < gridDim.y && shares.taking(); block += blockDim.x) {
        const double *const left = shares.of(index, block);
        const Sums<A> other = {A(left[0]), A(left[1]), A(left[2]), A(left[3])};
        all.add(other);
    }
    all.raise(across_row(all.max, Largest()));
    all.exp = across_row(all.exp, Sum());
    if (targets) {
        all.target = across_row(all.target, Sum());
        all.weighted = across_row(all.weighted, Sum());
    }
    return all;
}

template <typename T, typename L>
__global__ void __launch_bounds__(512, 1)
softmax_cross_entropy_forward(const T *__restrict__ data, const L *__restrict__ label, T *__restrict__ output,
                              typename Accumulator<T>::type *__restrict__ max,
                              typename Accumulator<T>::type *__restrict__ log_sum,
                              double *__restrict__ partial, int output_request, int max_request,
                              int log_sum_request, int64_t step, int64_t outer, int64_t classes, int64_t inner,
                              int64_t ignores, int64_t ignore_label, int64_t sparse, double smoothing)
{
    typedef typename Accumulator<T>::type A;
    const A keep = 1 - A(smoothing), spread = A(smoothing) / A(classes);
    const bool packed = packed_rows(classes, inner, data, data, data);
    const Shares<4> shares = {partial, step};
    if (shares.taking() && blockIdx.y > 0)   // a row's results are for one of its blocks
        return;
    for (int64_t r = first_row(); r < outer * inner; r += row_step()) {
        const WideRow<T> row(r, classes, inner, packed);
        const int64_t named = sparse ? class_of(label, r, classes, ignores, ignore_label) : NO_CLASS;
        // An ignored row counts as a row of zeros, whatever it holds.
        Sums<A> all = {0, A(classes), 0, 0};
        if (named != IGNORED)
            all = sums(data, label, row, sparse, keep, spread, r, shares);
        if (threadIdx.x != 0)
            continue;
        if (shares.leaving()) {
            double *const left = shares.own(r);
            left[0] = all.max;
            left[1] = all.exp;
            left[2] = all.target;
            left[3] = all.weighted;
            continue;
        }
        const A log_all = logarithm(all.exp);
        A loss = all.target * log_all - all.weighted;
        if (named == IGNORED)
            loss = 0;
        else if (sparse && named == NO_CLASS)
            loss = not_a_number<A>();
        else if (sparse)
            loss += keep * (log_all - (load(data, row.start + named * inner) - all.max));
        store(output, r, loss, output_request);
        store(max, r, all.max, max_request);
        store(log_sum, r, log_all, log_sum_request);
    }
}

template <typename T, typename L>
__global__ void __launch_bounds__(512, 1)
softmax_cross_entropy_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                               const L *__restrict__ label,
                               const typename Accumulator<T>::type *__restrict__ max,
                               const typename Accumulator<T>::type *__restrict__ log_sum,
                               T *__restrict__ data_grad, L *__restrict__ label_grad,
                               double *__restrict__ partial, int data_grad_request, int label_grad_request,
                               int64_t step, int64_t outer, int64_t classes, int64_t inner, int64_t ignores,
                               int64_t ignore_label, int64_t sparse, double smoothing)
{
    typedef typename Accumulator<T>::type A;
    typedef typename Accumulator<L>::type B;
    const A keep = 1 - A(smoothing), spread = A(smoothing) / A(classes);
    const bool packed = packed_rows(classes, inner, data, data_grad, data_grad);
    const Shares<1> shares = {partial, step};
    for (int64_t r = first_row(); r < outer * inner; r += row_step()) {
        const WideRow<T> row(r, classes, inner, packed);
        const int64_t named = sparse ? class_of(label, r, classes, ignores, ignore_label) : NO_CLASS;
        const int64_t hit = row.start + named * inner;   // in front of the row where there is no class
        const A head = sparse && named == NO_CLASS ? not_a_number<A>() : load(output_grad, r);
        const A top = load(max, r), log_all = load(log_sum, r);
        A mass = 1;   // of the target
        if (!sparse) {
            mass = 0;
            const int64_t thread = blockIdx.y * blockDim.x + threadIdx.x, threads = gridDim.y * blockDim.x;
            for (int64_t i = row.start + thread * inner; i < row.end && !shares.taking(); i += threads * inner)
                mass += keep * A(load(label, i)) + spread;
            mass = total(mass, shares, r);
            if (shares.leaving()) {
                if (threadIdx.x == 0)
                    *shares.own(r) = mass;
                continue;
            }
        }
        for (int64_t i = row.first; i < row.end; i += row.step) {
            Items<T> x;
            if (named == IGNORED)   // gradient 0, whatever the row or the head gradient holds
                x.fill(0);
            else
                x.read(data, row, i);
#pragma unroll
            for (int k = 0; k < WideRow<T>::ITEMS; ++k) {
                if (named == IGNORED || !row.has(i, k))
                    continue;
                const int64_t at = row.at(i, k);
                const A share = sparse ? A(at == hit) : A(load(label, at));
                const A log_probability = x.values[k] - top - log_all;
                x.values[k] = head * (mass * exponential(log_probability) - (keep * share + spread));
                if (!sparse)
                    store(label_grad, at, B(-keep * head * log_probability), label_grad_request);
            }
            x.write(data_grad, row, i, data_grad_request);
        }
    }
}
