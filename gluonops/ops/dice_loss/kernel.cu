// dice_loss. A thread takes OWN neighbouring pixels of a sample, or one. Forward finds their softmax, and then two sums
// for each class: of the probabilities where it is the label, and of the (squared) probabilities and the labels. The
// last block of a sample adds up the sums of all.
#include "../_labels/labels.cuh"
#include "../_softmax/softmax.cuh"

enum { TOGETHER = 4 };   // classes whose logits are read together
enum { CLASSES = 64 };   // classes between two barriers

// The type whose exponentials suffice: a probability of float32 that is off by 1e-7 is as good as another.
template <typename T> struct Fast { typedef __half type; };
template <> struct Fast<double> { typedef double type; };

// A pixel of a sample: its class, and the softmax of its logits, which is NaN where the label is invalid.
template <typename T>
struct Pixel {
    typedef typename Accumulator<T>::type A;
    int64_t class_id;
    Exponential<typename Fast<T>::type> softmax;

    __device__ Pixel() {}
    __device__ Pixel(int64_t class_id, A max, A log_sum)
        : class_id(class_id), softmax(max, 1, class_id == NO_CLASS ? not_a_number<A>() : log_sum) {}

    __device__ bool counts() const { return class_id != IGNORED; }
};

// Adds the probabilities of a block's pixels, from the first one on, to the sums of each class. A thread has OWN of
// them. Behind the end it has the sample's first ones, which count for nothing.
template <int OWN, typename T, typename L>
__device__ void sum_pixels(const DiceLossArgs<T, L> &args, int64_t sample, int64_t first)
{
    typedef typename Accumulator<T>::type A;
    __shared__ A of_warps[2 * CLASSES][WARPS];
    const bool exists = first + OWN * threadIdx.x < args.inner;
    const int64_t own = exists ? first + OWN * threadIdx.x : 0;
    const T *const logits = args.data + sample * args.classes * args.inner + own;
    SoftmaxSums<typename Fast<T>::type> softmax[OWN];
#pragma unroll 1
    for (int64_t c = 0; c < args.classes; c += TOGETHER) {
        Pack<T, OWN> packs[TOGETHER];
#pragma unroll
        for (int j = 0; j < TOGETHER; ++j)
            packs[j] = load_pack<T, OWN>(logits, minimum(c + j, args.classes - 1) * args.inner);
#pragma unroll
        for (int k = 0; k < OWN; ++k) {
            RowChunk<T, TOGETHER * sizeof(A)> x;
            x.most = TOGETHER;
#pragma unroll
            for (int j = 0; j < TOGETHER; ++j)
                x.values[j] = c + j < args.classes ? load(packs[j].items, k) : -infinity<A>();
            softmax[k].add_chunk(x);
        }
    }
    Pixel<T> pixels[OWN];
#pragma unroll
    for (int k = 0; k < OWN; ++k) {
        const int64_t i = sample * args.inner + own + k, class_id = class_of(args, i);
        if (class_id == IGNORED)   // it counts as a pixel with logits of 0, whatever it holds
            softmax[k].set_zeros(args.classes);
        const A log_sum = softmax[k].log_sum();
        pixels[k] = Pixel<T>(exists ? class_id : int64_t(IGNORED), softmax[k].max, log_sum);
        store(args.max, i, softmax[k].max, exists ? args.max_request : NOTHING);
        store(args.log_sum, i, log_sum, exists ? args.log_sum_request : NOTHING);
    }
    for (int64_t start = 0; start < args.classes; start += CLASSES) {
        const int count = int(minimum(CLASSES, args.classes - start));
        __syncthreads();   // the sums of the classes before are read
        for (int c = 0; c < count; c += 2) {
            A sums[4] = {0, 0, 0, 0};   // Two classes have two each.
            Pack<T, OWN> packs[2];
#pragma unroll
            for (int j = 0; j < 2; ++j)
                packs[j] = load_pack<T, OWN>(logits, (start + minimum(c + j, count - 1)) * args.inner);
#pragma unroll
            for (int n = 0; n < 2 * OWN; ++n) {
                const int j = n / OWN;
                const Pixel<T> &pixel = pixels[n % OWN];
                const A p = pixel.softmax(load(packs[j].items, n % OWN));
                const bool is_label = pixel.class_id == start + c + j;
                sums[2 * j] += is_label || pixel.class_id == NO_CLASS ? p : A(0);
                sums[2 * j + 1] += pixel.counts() ? (args.squared ? p * p : p) + (is_label ? 1 : 0) : A(0);
            }
            const A sum = sum_four(sums);
            if (threadIdx.x % 32 < 4)
                of_warps[2 * c + threadIdx.x % 32][threadIdx.x / 32] = sum;
        }
        __syncthreads();   // the sums of all warps
        for (int n = threadIdx.x; n < 2 * count; n += THREADS) {
            const int64_t row = sample * args.classes + start + n / 2;
            volatile A *const of_split = args.sums + 2 * (row * gridDim.y + blockIdx.y) + n % 2;
            A sum = first >= gridDim.y * OWN * THREADS ? *of_split : A(0);
            for (int warp = 0; warp < WARPS; ++warp)
                sum += of_warps[n][warp];
            *of_split = sum;
        }
    }
}

// Adds up the sums of all splits of a sample. A warp takes a class.
template <typename T, typename L>
__device__ void write_losses(const DiceLossArgs<T, L> &args, int64_t sample)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t c = threadIdx.x / 32; c < args.classes; c += WARPS) {
        const int64_t row = sample * args.classes + c;
        const volatile A *const sums = args.sums + 2 * row * gridDim.y;
        A intersection = 0, total = 0;
#pragma unroll 4
        for (int split = threadIdx.x % 32; split < gridDim.y; split += 32) {
            intersection += sums[2 * split];
            total += sums[2 * split + 1];
        }
        intersection = reduce_warp(intersection, Sum());
        total = reduce_warp(total, Sum());
        if (threadIdx.x % 32 > 0)
            continue;
        const A smooth = A(args.smooth), loss = 1 - (2 * intersection + smooth) / (total + smooth);
        store(args.output, row, loss, args.output_request);
        store(args.intersection, row, intersection, args.intersection_request);
        store(args.total, row, total, args.total_request);
    }
}

template <typename T, typename L>
__device__ void forward(const DiceLossArgs<T, L> &args)
{
    enum { OWN = sizeof(T) == 8 ? 2 : 4 };
    const PartialResults<typename Accumulator<T>::type> scratch(args.counts, args.sums);
    const bool in_packs = args.inner % OWN == 0 && aligned(args.data);
    const int64_t pixels = THREADS * (in_packs ? OWN : 1);   // the pixels of a block
    for (int64_t sample = blockIdx.x; sample < args.batch; sample += gridDim.x) {
        for (int64_t first = blockIdx.y * pixels; first < args.inner; first += gridDim.y * pixels)
            in_packs ? sum_pixels<OWN>(args, sample, first) : sum_pixels<1>(args, sample, first);
        if (scratch.is_last_block(sample, gridDim.y))
            write_losses(args, sample);
    }
}

// The derivative of a class's loss by a probability p is by_p * p + constant, with another constant at its own pixels.
template <typename A>
struct Slope {
    A by_p, constant, own_constant;

    __device__ A at(A p, bool is_own) const { return by_p * p + (is_own ? own_constant : constant); }
};

template <typename A, typename T, typename L>
__device__ Slope<A> slope_of(const DiceLossArgs<T, L> &args, int64_t row)
{
    const A smooth = A(args.smooth), scale = reciprocal(args.total[row] + smooth);
    const A grad_out = load(args.output_grad, row) * scale;
    const A by_total = grad_out * (2 * args.intersection[row] + smooth) * scale;
    const A constant = args.squared ? A(0) : by_total;
    return {args.squared ? 2 * by_total : A(0), constant, constant - 2 * grad_out};
}

template <typename T, typename L>
__device__ void backward(const DiceLossArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    const bool in_packs = args.inner % Pack<T>::SIZE == 0 && aligned(args.data, args.data_grad);
    for_packs<T>(args.batch * args.inner, in_packs, [&](auto group, int64_t i) {
        enum { OWN = decltype(group)::SIZE };
        const int64_t sample = quotient(i, args.inner), row = sample * args.classes;
        const int64_t start = row * args.inner + (i - sample * args.inner);
        Pixel<T> pixels[OWN];
        A means[OWN];
#pragma unroll
        for (int k = 0; k < OWN; ++k) {
            pixels[k] = Pixel<T>(class_of(args, i + k), args.max[i + k], args.log_sum[i + k]);
            means[k] = 0;
        }
#pragma unroll 2
        for (int64_t c = 0; c < args.classes; ++c) {
            const Slope<A> slope = slope_of<A>(args, row + c);
            const Pack<T, OWN> logits = load_pack<T, OWN>(args.data, start + c * args.inner);
#pragma unroll
            for (int k = 0; k < OWN; ++k) {
                const A p = pixels[k].softmax(load(logits.items, k));
                means[k] += p * slope.at(p, c == pixels[k].class_id);
            }
        }
#pragma unroll 2
        for (int64_t c = 0; c < args.classes; ++c) {
            const Slope<A> slope = slope_of<A>(args, row + c);
            const Pack<T, OWN> logits = load_pack<T, OWN>(args.data, start + c * args.inner);
            A gradients[OWN];
#pragma unroll
            for (int k = 0; k < OWN; ++k) {
                const A p = pixels[k].softmax(load(logits.items, k));
                gradients[k] = pixels[k].counts() ? p * (slope.at(p, c == pixels[k].class_id) - means[k]) : A(0);
            }
            store_pack<T, OWN>(args.data_grad, start + c * args.inner, gradients, args.data_grad_request);
        }
    });
}
