// softmax_cross_entropy, a warp or a block per row. Bytes moved: forward the logits' and three numbers per
// row, backward twice the logits' (read, write); dense labels' as often. Forward with smoothing or dense
// labels, and backward with dense labels, read a row once more right after a reduction over it, which the
// cache serves.
//
// A row's target is keep * label + spread: label is 1 at the class and 0 elsewhere where labels are sparse.

template <typename T, typename L>
__global__ void __launch_bounds__(1024)
softmax_cross_entropy_forward(const T *__restrict__ data, const L *__restrict__ label, T *__restrict__ output,
                              typename Accumulator<T>::type *__restrict__ max,
                              typename Accumulator<T>::type *__restrict__ log_sum, int output_request,
                              int max_request, int log_sum_request, int64_t outer, int64_t classes,
                              int64_t inner, int64_t ignores, int64_t ignore_label, int64_t sparse,
                              double smoothing)
{
    typedef typename Accumulator<T>::type A;
    const A keep = 1 - A(smoothing), spread = A(smoothing) / A(classes);
    for (int64_t r = first_row(); r < outer * inner; r += row_step()) {
        const Row row(r, classes, inner);
        const int64_t named = sparse ? class_of(label, r, classes, ignores, ignore_label) : NO_CLASS;
        // An ignored row counts as a row of zeros, whatever it holds.
        Total<A> all = {0, A(classes)};
        if (named != IGNORED)
            all = total(data, row, A(1));
        const A log_all = logarithm(all.sum);
        A loss = 0;
        if (sparse && named == NO_CLASS) {
            loss = not_a_number<A>();
        } else if (named != IGNORED) {
            if (!sparse || spread > 0) {
                for (int64_t i = row.first; i < row.end; i += row.step) {
                    const A target = sparse ? spread : keep * A(load(label, i)) + spread;
                    loss += target * (log_all - (load(data, i) - all.max));
                }
                loss = across_row(loss, Sum());
            }
            if (sparse)
                loss += keep * (log_all - (load(data, row.start + named * inner) - all.max));
        }
        if (threadIdx.x == 0) {
            store(output, r, loss, output_request);
            store(max, r, all.max, max_request);
            store(log_sum, r, log_all, log_sum_request);
        }
    }
}

template <typename T, typename L>
__global__ void __launch_bounds__(1024)
softmax_cross_entropy_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                               const L *__restrict__ label,
                               const typename Accumulator<T>::type *__restrict__ max,
                               const typename Accumulator<T>::type *__restrict__ log_sum,
                               T *__restrict__ data_grad, L *__restrict__ label_grad, int data_grad_request,
                               int label_grad_request, int64_t outer, int64_t classes, int64_t inner,
                               int64_t ignores, int64_t ignore_label, int64_t sparse, double smoothing)
{
    typedef typename Accumulator<T>::type A;
    typedef typename Accumulator<L>::type B;
    const A keep = 1 - A(smoothing), spread = A(smoothing) / A(classes);
    for (int64_t r = first_row(); r < outer * inner; r += row_step()) {
        const Row row(r, classes, inner);
        const int64_t named = sparse ? class_of(label, r, classes, ignores, ignore_label) : NO_CLASS;
        const int64_t hit = row.start + named * inner;   // in front of the row where there is no class
        const A head = sparse && named == NO_CLASS ? not_a_number<A>() : load(output_grad, r);
        const A top = load(max, r), log_all = load(log_sum, r);
        A mass = 1;   // of the target
        if (!sparse) {
            mass = 0;
            for (int64_t i = row.first; i < row.end; i += row.step)
                mass += keep * A(load(label, i)) + spread;
            mass = across_row(mass, Sum());
        }
        for (int64_t i = row.first; i < row.end; i += row.step) {
            if (named == IGNORED) {   // whatever the row or the head gradient holds
                store(data_grad, i, A(0), data_grad_request);
                continue;
            }
            const A share = sparse ? A(i == hit) : A(load(label, i));
            const A log_probability = load(data, i) - top - log_all;
            store(data_grad, i, head * (mass * exponential(log_probability) - (keep * share + spread)),
                  data_grad_request);
            if (!sparse)
                store(label_grad, i, B(-keep * head * log_probability), label_grad_request);
        }
    }
}
