// What the losses of maps share: a thread per prediction, blocks that share an image, and the sums of its parts.
#include "../_region/parts.cuh"
#include "../_boxes/boxes.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };
enum Step { ASSIGN, COMPUTE, COMBINE };

// The place of a prediction.
struct Prediction {
    int64_t anchor, column, row;

    __device__ Prediction(int64_t number, int64_t height, int64_t width)
    {
        const int64_t line = number / width;   // of all anchors
        anchor = line / height;
        row = line - anchor * height;
        column = number - line * width;
    }
};

template <typename A> struct Edges {
    A left, right, top, bottom, area;

    __device__ explicit Edges(const Box<A> &box)
        : left(box.x - box.w / 2), right(box.x + box.w / 2), top(box.y - box.h / 2), bottom(box.y + box.h / 2),
          area(box.w * box.h) {}
};

// The results of image `b`, from the sums of the blocks that shared it.
template <typename T, typename A>
__device__ void combine(const Partials<PARTS> &partials, int64_t b, T *__restrict__ output, A *__restrict__ parts,
                        int output_request, int parts_request)
{
    A sums[PARTS] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
    for (int block = 0; block < gridDim.y; ++block)
#pragma unroll
        for (int p = 0; p < PARTS; ++p)
            sums[p] += A(partials.of_block(b, block)[p]);
    A loss = 0;
#pragma unroll
    for (int p = 0; p < PARTS; ++p) {
        loss += p <= CLASS_PART ? sums[p] : A(0);
        store(parts, b * PARTS + p, sums[p], parts_request);
    }
    store(output, b, loss, output_request);
}

// The sums of a block, and NaN in each if the image has an invalid row.
template <typename A>
__device__ void write_sums(const A *sums, A nan_if_invalid, double *to)
{
    __shared__ A of_warps[WARPS][PARTS];
    __syncthreads();   // the sums of the image before may still be read
    for (int p = 0; p < PARTS; ++p) {
        const A sum = reduce_lanes(sums[p], Sum(), 32);
        if (threadIdx.x % 32 == 0)
            of_warps[threadIdx.x / 32][p] = sum;
    }
    __syncthreads();   // the sums of all warps are there
    if (threadIdx.x < PARTS) {
        A sum = nan_if_invalid;
        for (int warp = 0; warp < WARPS; ++warp)
            sum += of_warps[warp][threadIdx.x];
        to[threadIdx.x] = sum;
    }
}
