// reorg on the CPU: a permutation in every mode, in one pass. Bytes moved, forward and backward: twice the tensor's.
//
// A row of the large image is `stride` rows of the small one, interleaved; the `stride` rows above one small row lie
// side by side. So one plane of the large image is read in order and stride * stride planes of the small one are
// written in order, or the other way round.
#include "../../native/kernel.h"

namespace gluonops {

struct ReorgCall {
    int bytes;                                          // of an element
    int64_t batch, channels, height, width, stride;     // of the tensor with the large image
    bool crd, shrink;                                   // else DCR; from the large image to the small, or back
    const void *from;
    void *to;
};

GLUONOPS_KERNEL(reorg_move, ReorgCall)

namespace GLUONOPS_TARGET {
namespace {

// small[dx * plane + x] <-> large[x * stride + dx]
template <int STRIDE, typename T>
GLUONOPS_INLINE void split(const T *__restrict__ large, T *__restrict__ small, int64_t plane, int64_t width,
                           int64_t stride)
{
    const int64_t s = STRIDE ? STRIDE : stride;
    if (STRIDE == 2) {
        T *__restrict__ odd = small + plane;
        for (int64_t x = 0; x < width; ++x) {
            small[x] = large[2 * x];
            odd[x] = large[2 * x + 1];
        }
        return;
    }
    for (int64_t dx = 0; dx < s; ++dx)
        for (int64_t x = 0; x < width; ++x)
            small[dx * plane + x] = large[x * s + dx];
}

template <int STRIDE, typename T>
GLUONOPS_INLINE void join(const T *__restrict__ small, T *__restrict__ large, int64_t plane, int64_t width,
                          int64_t stride)
{
    const int64_t s = STRIDE ? STRIDE : stride;
    if (STRIDE == 2) {
        const T *__restrict__ odd = small + plane;
        for (int64_t x = 0; x < width; ++x) {
            large[2 * x] = small[x];
            large[2 * x + 1] = odd[x];
        }
        return;
    }
    for (int64_t dx = 0; dx < s; ++dx)
        for (int64_t x = 0; x < width; ++x)
            large[x * s + dx] = small[dx * plane + x];
}

template <int STRIDE, typename T>
void move(const ReorgCall &call)
{
    const int64_t s = call.stride, height = call.height / s, width = call.width / s, plane = height * width;
    const int64_t step = call.crd ? plane : call.channels * plane;   // from one (dy, dx) to the next
    const T *from = static_cast<const T *>(call.from);
    T *to = static_cast<T *>(call.to);
    const int64_t channels = call.channels;
    const bool crd = call.crd, shrink = call.shrink;
    parallel_for(call.batch * channels * height, 2 * s * s * width * int64_t(sizeof(T)),
                 [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const int64_t y = row % height, index = row / height, channel = index % channels, image = index / channels;
            const int64_t small = (image * channels * s * s + (crd ? channel * s * s : channel)) * plane + y * width;
            const int64_t large = row * s * s * width;
            for (int64_t dy = 0; dy < s; ++dy) {
                const int64_t there = small + dy * s * step, here = large + dy * s * width;
                if (shrink)
                    split<STRIDE>(from + here, to + there, step, width, s);
                else
                    join<STRIDE>(from + there, to + here, step, width, s);
            }
        }
    });
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
    const int64_t bytes = call.batch * call.channels * call.height * call.width * call.bytes;
    const char *from = static_cast<const char *>(call.from);
    char *to = static_cast<char *>(call.to);
    parallel_for((bytes + 4095) / 4096, 8192, [=](int64_t begin, int64_t end) {
        const int64_t last = end * 4096 < bytes ? end * 4096 : bytes;
        if (last > begin * 4096)
            memcpy(to + begin * 4096, from + begin * 4096, size_t(last - begin * 4096));
    });
}

}  // namespace

void reorg_move(const ReorgCall &call)
{
    if (call.stride == 1)
        return copy(call);
    switch (call.bytes) {
    case 1: return move_elements<uint8_t>(call);
    case 2: return move_elements<uint16_t>(call);
    case 4: return move_elements<uint32_t>(call);
    default: return move_elements<uint64_t>(call);
    }
}

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#ifdef GLUONOPS_REGISTER
#include "../../native/operator.h"

namespace gluonops {
namespace {

struct Reorg : Contract {
    static constexpr const char *NAME = "reorg";
    struct Attrs {
        int64_t stride;
        std::string mode;
        bool reverse;
    };
    static std::vector<const char *> attributes() { return {"stride", "mode", "reverse"}; }
    static Attrs parse(const Attributes &given)
    {
        return {given.integer("stride", 2, 1), given.choice("mode", {"darknet", "DCR", "CRD"}),
                given.boolean("reverse", false)};
    }
    static Tensors tensors(const Attrs &)
    {
        return {{"data", 'T'}, {"output", 'T'}};
    }
    enum { INPUTS = 1, OUTPUTS = 1 };
    static const std::vector<int> &types() { return floats_and_integers(); }
    static Shapes shapes(const Attrs &attrs, const std::vector<int> &)
    {
        const Dim batch("batch"), channels("channels"), height("height"), width("width");
        const Size s("stride", attrs.stride);
        const Pattern data = {batch, channels, height, width};
        if (attrs.reverse)
            return {{data, {batch, channels / (s * s), height * s, width * s}}, {}};
        Pattern required;
        if (attrs.mode == "darknet")
            required.push_back(channels / (s * s));
        return {{data, {batch, channels * (s * s), height / s, width / s}}, required};
    }
    static void move(const Attrs &attrs, const std::vector<int64_t> &data, const void *from, void *to, int type,
                     bool shrink)
    {
        int64_t channels = data[1], height = data[2], width = data[3];
        const int64_t s = attrs.stride;
        if (attrs.reverse) {
            channels /= s * s;
            height *= s;
            width *= s;
        } else if (attrs.mode == "darknet") {   // DCR of the same memory, read as fewer channels of a larger image
            channels /= s * s;
            height *= s;
            width *= s;
        }
        reorg_move({size_of(type), data[0], channels, height, width, s, attrs.mode == "CRD", shrink, from, to});
    }
    static void forward(const Attrs &attrs, Arrays inputs, Arrays outputs)
    {
        move(attrs, inputs[0].shape, inputs[0].data_ptr, outputs[0].data_ptr, inputs[0].dtype, !attrs.reverse);
    }
    static void backward(const Attrs &attrs, Arrays grads, Arrays inputs, Arrays, Arrays results)
    {
        move(attrs, inputs[0].shape, grads[0].data_ptr, results[0].data_ptr, inputs[0].dtype, attrs.reverse);
    }
};

GLUONOPS_REGISTER_OP(gluonops_reorg, Reorg)

}  // namespace
}  // namespace gluonops
#endif
