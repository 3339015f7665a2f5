// reorg, one thread per element: a permutation in every mode. Bytes moved, forward and backward: twice the
// tensor's; three times with a request to add.
//
// Neighbouring threads take neighbouring elements of the tensor with the large image. In the other tensor
// they form `stride` runs, so with small strides a warp touches whole sectors of memory on both sides.

enum { DARKNET, DCR, CRD };

struct Sizes {   // of the tensor with the large image
    int64_t batch, channels, height, width, stride, mode;
};

// Where element `i` of the tensor with the large image lies in the other, in DCR or CRD.
__device__ inline int64_t place(int64_t i, const Sizes &sizes)
{
    const int64_t s = sizes.stride;
    const int64_t column = i % sizes.width, line = i / sizes.width;
    const int64_t row = line % sizes.height, plane = line / sizes.height;
    const int64_t channel = plane % sizes.channels, image = plane / sizes.channels;
    const int64_t x = column / s, dx = column % s, y = row / s, dy = row % s;
    const int64_t depth = sizes.mode == CRD ? (channel * s + dy) * s + dx
                                            : (dy * s + dx) * sizes.channels + channel;
    return ((image * sizes.channels * s * s + depth) * (sizes.height / s) + y) * (sizes.width / s) + x;
}

template <typename T>
__device__ void permute(const T *__restrict__ from, T *__restrict__ to, int request, Sizes sizes, bool shrink)
{
    if (sizes.mode == DARKNET) {   // DCR of the same memory, read as fewer channels of a larger image
        sizes.channels /= sizes.stride * sizes.stride;
        sizes.height *= sizes.stride;
        sizes.width *= sizes.stride;
    }
    const int64_t size = sizes.batch * sizes.channels * sizes.height * sizes.width;
    for (int64_t i = first_item(); i < size; i += item_step()) {
        const int64_t j = place(i, sizes);
        copy(to, shrink ? j : i, from, shrink ? i : j, request);
    }
}

template <typename T>
__global__ void reorg_forward(const T *__restrict__ data, T *__restrict__ output, int output_request,
                              int64_t batch, int64_t channels, int64_t height, int64_t width, int64_t stride,
                              int64_t mode, int64_t reverse)
{
    const Sizes sizes = {batch, channels, height, width, stride, mode};
    permute(data, output, output_request, sizes, !reverse);
}

// The transposed permutation.
template <typename T>
__global__ void reorg_backward(const T *__restrict__ output_grad, T *__restrict__ data_grad,
                               int data_grad_request, int64_t batch, int64_t channels, int64_t height,
                               int64_t width, int64_t stride, int64_t mode, int64_t reverse)
{
    const Sizes sizes = {batch, channels, height, width, stride, mode};
    permute(output_grad, data_grad, data_grad_request, sizes, reverse);
}
