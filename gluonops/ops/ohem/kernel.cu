// ohem. Forward: a block of threads for each selection. It finds the lowest loss that is kept by its bits, two at a time
// from the highest, and counts the losses above each candidate. Where losses are equal to it and not all of them are
// kept, it finds the last of them in the same way, by the bits of its place. Backward: a thread per element.

// Numbers in their order: the larger of two keys has the larger number.
template <typename A> struct Ordered;

template <>
struct Ordered<float> {
    typedef unsigned Key;
    enum { BITS = 32 };

    __device__ static float number(Key key)
    {
        if (key < 0x007fffffu)   // of a NaN
            return -infinity<float>();
        return __int_as_float(int(key >> 31 ? key ^ 0x80000000u : ~key));
    }
};

template <>
struct Ordered<double> {
    typedef unsigned long long Key;
    enum { BITS = 64 };

    __device__ static double number(Key key)
    {
        if (key < 0x000fffffffffffffull)   // of a NaN
            return -infinity<double>();
        return __longlong_as_double(int64_t(key >> 63 ? key ^ 0x8000000000000000ull : ~key));
    }
};

// The losses that are chosen from.
template <typename T>
struct Selection {
    typedef typename Accumulator<T>::type A;
    typedef typename Ordered<A>::Key Key;
    const T *data;
    int64_t length;

    __device__ Selection(const T *data, int64_t length) : data(data), length(length) {}

    __device__ A at(int64_t i) const
    {
        const A loss = load(data, i);
        return loss == loss ? loss : infinity<A>();
    }

    // How many losses count.
    __device__ int64_t count() const
    {
        int64_t found = 0;
        for (int64_t i = threadIdx.x; i < length; i += blockDim.x)
            found += at(i) != 0;
        return reduce_row(found, Sum());
    }

    // How many of them are above a number.
    template <typename Number>
    __device__ int64_t count_above(Number number) const
    {
        int64_t found = 0;
        for (int64_t i = threadIdx.x; i < length; i += blockDim.x) {
            const A loss = at(i);
            found += loss != 0 && Number(loss) > number;
        }
        return reduce_row(found, Sum());
    }

    // How many of the losses in front of a place are equal to a number.
    __device__ int64_t count_equal(A number, int64_t end) const
    {
        int64_t found = 0;
        for (int64_t i = threadIdx.x; i < minimum(end, length); i += blockDim.x) {
            const A loss = at(i);
            found += loss != 0 && loss == number;
        }
        return reduce_row(found, Sum());
    }

    // The n-th largest loss.
    __device__ A largest(int64_t n) const
    {
        Key key = 0;
        for (int shift = Ordered<A>::BITS - 2; shift >= 0; shift -= 2) {
            const Key step = Key(1) << shift;
            const A one = Ordered<A>::number(key + step), two = Ordered<A>::number(key + 2 * step);
            const A three = Ordered<A>::number(key + 3 * step);
            int64_t ones = 0, twos = 0, threes = 0;
            for (int64_t i = threadIdx.x; i < length; i += blockDim.x) {
                const A loss = at(i);
                const bool counts = loss != 0;
                ones += counts && loss >= one;
                twos += counts && loss >= two;
                threes += counts && loss >= three;
            }
            if (reduce_row(threes, Sum()) >= n)
                key += 3 * step;
            else if (reduce_row(twos, Sum()) >= n)
                key += 2 * step;
            else if (reduce_row(ones, Sum()) >= n)
                key += step;
        }
        return Ordered<A>::number(key);
    }

    // The place of the n-th of the losses that are equal to a number.
    __device__ int64_t place(A number, int64_t n) const
    {
        int64_t step = 1, found = 0;
        while (2 * step <= length)
            step *= 2;
        for (; step > 0; step /= 2)
            if (count_equal(number, found + step) < n)
                found += step;
        return found;
    }
};

template <typename T>
__global__ void __launch_bounds__(512, 1)
ohem_forward(const T *__restrict__ data, T *__restrict__ output, int output_request, int64_t selections,
             int64_t length, int64_t counts, int64_t keep, double ratio, int64_t bounded, double threshold)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t row = first_row(); row < selections; row += row_step()) {
        const Selection<T> losses(data + row * length, length);
        const int64_t count = losses.count();
        int64_t number = counts ? keep : int64_t(ceil(ratio * double(count)));
        if (bounded)
            number = Max()(losses.count_above(threshold), number);
        A lowest = -infinity<A>();   // of the losses that are kept
        int64_t last = length;       // the place of the last one that is equal to it
        if (number == 0) {
            lowest = infinity<A>();
            last = -1;
        } else if (number < count) {
            lowest = losses.largest(number);
            const int64_t left = number - losses.count_above(lowest);
            if (left < losses.count_equal(lowest, length))
                last = losses.place(lowest, left);
        }
        for (int64_t i = threadIdx.x; i < length; i += blockDim.x) {
            const A loss = losses.at(i);
            const bool is_hard = loss > lowest || (loss == lowest && i <= last);
            if (is_hard && loss != 0)
                copy(output, row * length + i, data, row * length + i, output_request);
            else
                store(output, row * length + i, 0, output_request);
        }
    }
}

template <typename T>
__global__ void ohem_backward(const T *__restrict__ output_grad, const T *__restrict__ output,
                              T *__restrict__ data_grad, int data_grad_request, int64_t selections, int64_t length,
                              int64_t counts, int64_t keep, double ratio, int64_t bounded, double threshold)
{
    for (int64_t i = first_item(); i < selections * length; i += item_step()) {
        const bool is_kept = load(output, i) != 0;   // true for NaN
        if (is_kept)
            copy(data_grad, i, output_grad, i, data_grad_request);
        else
            store(data_grad, i, 0, data_grad_request);
    }
}
