// tile, one thread per element that is written. Bytes moved, forward and backward: the data's and the
// output's. Forward reads an element once per copy, which the cache serves if the data fits.
//
// The tensors are seen as LOOPS dimensions, outermost first: data has size[l] steps in l, the output
// repeats[l] times as many. Loops of one step, which fill the list up, cost a comparison.

enum { LOOPS = 8 };

struct Loops {
    int64_t size[LOOPS], repeats[LOOPS];
};

// Forward: the element of data that output element `i` is a copy of.
__device__ inline int64_t origin(int64_t i, const Loops &loops)
{
    int64_t element = 0, stride = 1;
#pragma unroll
    for (int l = LOOPS - 1; l >= 0; --l) {
        const int64_t span = loops.size[l] * loops.repeats[l];
        if (span > 1) {
            element += i % span % loops.size[l] * stride;
            i /= span;
            stride *= loops.size[l];
        }
    }
    return element;
}

// Backward: the output element that is the first copy of data element `i`.
__device__ inline int64_t first_copy(int64_t i, const Loops &loops)
{
    int64_t element = 0, stride = 1;
#pragma unroll
    for (int l = LOOPS - 1; l >= 0; --l) {
        if (loops.size[l] > 1) {
            element += i % loops.size[l] * stride;
            i /= loops.size[l];
        }
        stride *= loops.size[l] * loops.repeats[l];
    }
    return element;
}

// How far copy `c` of any data element lies behind the first.
__device__ inline int64_t distance(int64_t c, const Loops &loops)
{
    int64_t elements = 0, stride = 1;
#pragma unroll
    for (int l = LOOPS - 1; l >= 0; --l) {
        stride *= loops.size[l];
        if (loops.repeats[l] > 1) {
            elements += c % loops.repeats[l] * stride;
            c /= loops.repeats[l];
        }
        stride *= loops.repeats[l];
    }
    return elements;
}

template <typename T>
__global__ void tile_forward(const T *__restrict__ data, T *__restrict__ output, int output_request,
                             int64_t size0, int64_t repeats0, int64_t size1, int64_t repeats1,
                             int64_t size2, int64_t repeats2, int64_t size3, int64_t repeats3,
                             int64_t size4, int64_t repeats4, int64_t size5, int64_t repeats5,
                             int64_t size6, int64_t repeats6, int64_t size7, int64_t repeats7)
{
    const Loops loops = {{size0, size1, size2, size3, size4, size5, size6, size7},
                         {repeats0, repeats1, repeats2, repeats3, repeats4, repeats5, repeats6, repeats7}};
    int64_t size = 1;
    for (int l = 0; l < LOOPS; ++l)
        size *= loops.size[l] * loops.repeats[l];
    for (int64_t i = first_item(); i < size; i += item_step())
        copy(output, i, data, origin(i, loops), output_request);
}

// The sum over an element's copies, always in the same order.
template <typename T>
__global__ void tile_backward(const T *__restrict__ output_grad, T *__restrict__ data_grad,
                              int data_grad_request,
                              int64_t size0, int64_t repeats0, int64_t size1, int64_t repeats1,
                              int64_t size2, int64_t repeats2, int64_t size3, int64_t repeats3,
                              int64_t size4, int64_t repeats4, int64_t size5, int64_t repeats5,
                              int64_t size6, int64_t repeats6, int64_t size7, int64_t repeats7)
{
    const Loops loops = {{size0, size1, size2, size3, size4, size5, size6, size7},
                         {repeats0, repeats1, repeats2, repeats3, repeats4, repeats5, repeats6, repeats7}};
    int64_t size = 1, copies = 1;
    for (int l = 0; l < LOOPS; ++l) {
        size *= loops.size[l];
        copies *= loops.repeats[l];
    }
    for (int64_t i = first_item(); i < size; i += item_step()) {
        const int64_t first = first_copy(i, loops);
        typename Accumulator<T>::type sum = 0;
        for (int64_t c = 0; c < copies; ++c)
            sum += load(output_grad, first + distance(c, loops));
        store(data_grad, i, sum, data_grad_request);
    }
}
