// reorg on the CPU: a permutation in every mode, in one pass. Bytes moved, forward and backward: twice the tensor's.
//
// A row of the large image is `stride` rows of the small one, interleaved; the `stride` rows above one small row lie
// side by side. So one plane of the large image is read in order and stride * stride planes of the small one are
// written in order, or the other way round.
#include <utility>

#include "generated/reorg.h"
#include "../../native/kernel.h"

namespace gluonops {

struct ReorgCall {
    int type;
    int64_t batch, channels, height, width, stride;     // of the tensor with the large image
    bool crd, shrink;                                   // else DCR; from the large image to the small, or back
    const void *from;
    void *to;
};

namespace GLUONOPS_TARGET {
namespace {

// Vectors of BYTES bytes, and how two of them are split into even and odd elements and joined again.
template <typename T, int BYTES>
struct Pairs {
    enum { N = BYTES / int(sizeof(T)) };
    typedef T Vector __attribute__((vector_size(BYTES)));

    static GLUONOPS_INLINE Vector load(const T *from)
    {
        Vector v;
        memcpy(&v, from, BYTES);
        return v;
    }
#if defined(__clang__)
    template <int... I>
    static GLUONOPS_INLINE void split(Vector a, Vector b, T *even, T *odd, std::integer_sequence<int, I...>)
    {
        const Vector first = __builtin_shufflevector(a, b, 2 * I...);
        const Vector second = __builtin_shufflevector(a, b, (2 * I + 1)...);
        memcpy(even, &first, BYTES);
        memcpy(odd, &second, BYTES);
    }
    template <int... I>
    static GLUONOPS_INLINE void join(Vector even, Vector odd, T *to, std::integer_sequence<int, I...>)
    {
        const Vector first = __builtin_shufflevector(even, odd, (I / 2 + I % 2 * N)...);
        const Vector second = __builtin_shufflevector(even, odd, ((I + N) / 2 + I % 2 * N)...);
        memcpy(to, &first, BYTES);
        memcpy(to + N, &second, BYTES);
    }
#else
    template <int... I>
    static GLUONOPS_INLINE void split(Vector a, Vector b, T *even, T *odd, std::integer_sequence<int, I...>)
    {
        const Vector first = __builtin_shuffle(a, b, Vector{T(2 * I)...});
        const Vector second = __builtin_shuffle(a, b, Vector{T(2 * I + 1)...});
        memcpy(even, &first, BYTES);
        memcpy(odd, &second, BYTES);
    }
    template <int... I>
    static GLUONOPS_INLINE void join(Vector even, Vector odd, T *to, std::integer_sequence<int, I...>)
    {
        const Vector first = __builtin_shuffle(even, odd, Vector{T(I / 2 + I % 2 * N)...});
        const Vector second = __builtin_shuffle(even, odd, Vector{T((I + N) / 2 + I % 2 * N)...});
        memcpy(to, &first, BYTES);
        memcpy(to + N, &second, BYTES);
    }
#endif
};

// small[x] and odd[x] <-> large[2 * x] and large[2 * x + 1]. The last vector overlaps the one before; rows shorter
// than a vector take shorter vectors.
template <bool SHRINK, int BYTES, typename T>
GLUONOPS_INLINE void pairs(T *large, T *small, T *odd, int64_t width)
{
    typedef Pairs<T, BYTES> P;
    enum { N = P::N };
    if constexpr (N >= 2) {
        if (width >= N) {
            const std::make_integer_sequence<int, N> lanes{};
            for (int64_t x = 0;; x += N) {
                x = x + N > width ? width - N : x;
                if (SHRINK)
                    P::split(P::load(large + 2 * x), P::load(large + 2 * x + N), small + x, odd + x, lanes);
                else
                    P::join(P::load(small + x), P::load(odd + x), large + 2 * x, lanes);
                if (x + N >= width)
                    return;
            }
        }
        if constexpr (BYTES > 8)
            return pairs<SHRINK, BYTES / 2>(large, small, odd, width);
    }
    for (int64_t x = 0; x < width; ++x) {
        if (SHRINK) {
            small[x] = large[2 * x];
            odd[x] = large[2 * x + 1];
        } else {
            large[2 * x] = small[x];
            large[2 * x + 1] = odd[x];
        }
    }
}

// small[dx * step + x] <-> large[x * stride + dx], for a row.
template <bool SHRINK, int STRIDE, typename T>
GLUONOPS_INLINE void move_row(T *large, T *small, int64_t step, int64_t width, int64_t stride)
{
    if (STRIDE == 2)
        return pairs<SHRINK, WIDTH>(large, small, small + step, width);
    const int64_t s = STRIDE ? STRIDE : stride;
    for (int64_t dx = 0; dx < s; ++dx)
        for (int64_t x = 0; x < width; ++x) {
            if (SHRINK)
                small[dx * step + x] = large[x * s + dx];
            else
                large[x * s + dx] = small[dx * step + x];
        }
}

template <bool SHRINK, int STRIDE, typename T>
void move(const ReorgCall &call)
{
    const int64_t s = call.stride, height = call.height / s, width = call.width / s, plane = height * width;
    const int64_t channels = call.channels, squares = s * s;
    const int64_t step = call.crd ? plane : channels * plane;   // from one (dy, dx) to the next
    const bool crd = call.crd;
    // One of the two is read, the other written. Writing past the caches was tried and does not pay: the parts of a
    // row are too short.
    T *large = static_cast<T *>(SHRINK ? const_cast<void *>(call.from) : call.to);
    T *small = static_cast<T *>(SHRINK ? call.to : const_cast<void *>(call.from));
    parallel_for(call.batch * channels * height, 2 * squares * width * int64_t(sizeof(T)),
                 [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const int64_t y = row % height, index = row / height, channel = index % channels, image = index / channels;
            T *there = small + (image * channels * squares + (crd ? channel * squares : channel)) * plane + y * width;
            T *here = large + row * squares * width;
            for (int64_t dy = 0; dy < s; ++dy)
                move_row<SHRINK, STRIDE>(here + dy * s * width, there + dy * s * step, step, width, s);
        }
    });
}

template <int STRIDE, typename T>
void move(const ReorgCall &call)
{
    call.shrink ? move<true, STRIDE, T>(call) : move<false, STRIDE, T>(call);
}

template <typename T>
void move_elements(const ReorgCall &call)
{
    switch (call.stride) {
    case 2: return move<2, T>(call);
    case 3: return move<3, T>(call);
    case 4: return move<4, T>(call);
    default: return move<0, T>(call);
    }
}

void copy(const ReorgCall &call)
{
    const int64_t bytes = call.batch * call.channels * call.height * call.width * size_of(call.type);
    const char *from = static_cast<const char *>(call.from);
    char *to = static_cast<char *>(call.to);
    parallel_for((bytes + 4095) / 4096, 8192, [=](int64_t begin, int64_t end) {
        const int64_t last = end * 4096 < bytes ? end * 4096 : bytes;
        if (last > begin * 4096)
            memcpy(to + begin * 4096, from + begin * 4096, size_t(last - begin * 4096));
    });
}

// An unsigned integer of so many bytes: elements only move, whatever they are.
template <int BYTES> struct Word { typedef uint64_t Type; };
template <> struct Word<1> { typedef uint8_t Type; };
template <> struct Word<2> { typedef uint16_t Type; };
template <> struct Word<4> { typedef uint32_t Type; };

template <typename T>
void forward(const ReorgCall &call)
{
    if (call.stride == 1)
        copy(call);
    else
        move_elements<typename Word<sizeof(T)>::Type>(call);
}

template <typename T>
void backward(const ReorgCall &call)
{
    forward<T>(call);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline ReorgCall adapt(const ReorgAttrs &attrs, const ReorgTensors &tensors, Workspace &)
{
    typedef ReorgAttrs::Mode Mode;
    const std::vector<int64_t> &shape = tensors.data.shape();
    const int64_t s = attrs.stride;
    ReorgCall call = {};
    call.type = tensors.data.type;
    call.batch = shape[0];
    call.channels = shape[1];
    call.height = shape[2];
    call.width = shape[3];
    call.stride = s;
    if (attrs.reverse || attrs.mode == Mode::Darknet) {   // darknet: DCR of the same memory, as a larger image
        call.channels /= s * s;
        call.height *= s;
        call.width *= s;
    }
    call.crd = attrs.mode == Mode::CRD;
    call.shrink = attrs.reverse == tensors.backward;
    call.from = tensors.backward ? tensors.output_grad.data : tensors.data.data;
    call.to = tensors.backward ? tensors.data_grad.data : tensors.output.data;
    return call;
}

}  // namespace gluonops
