// The kernels on tensors of more than 2^31 elements, every element checked. The stock MXNet makes none so large, so
// they are called on plain memory. Takes 9 GB.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define GLUONOPS_ENTRY   // the functions that fill a kernel's arguments and call it
#include "generated/abs.cc"
#include "generated/reorg.cc"
#include "generated/softmax_cross_entropy.cc"
#include "generated/tile.cc"
#include "native/pool.cc"
#include "native/mxnet/runtime.cc"

using namespace gluonops;
using namespace gluonops::GLUONOPS_ISA;

namespace {

const int64_t LARGE = int64_t(1) << 31;

struct Bytes {
    int8_t *data;
    explicit Bytes(int64_t size) : data(static_cast<int8_t *>(malloc(size_t(size)))) { memset(data, 77, size_t(size)); }
    ~Bytes() { free(data); }
};

void require(bool condition, const char *what, int64_t i)
{
    if (!condition) {
        fprintf(stderr, "%s is wrong at %lld\n", what, static_cast<long long>(i));
        exit(1);
    }
}

// Differs between indices that are 2^31 or 2^32 apart.
int8_t pattern(int64_t i) { return int8_t(i % 251 - 125); }

void abs_large()
{
    const int64_t size = LARGE + 4099;
    Bytes from(size), to(size);
    for (int64_t i = 0; i < size; ++i)
        from.data[i] = pattern(i);
    const std::vector<int64_t> shape = {size};
    const View input = {from.data, INT8, &shape}, output = {to.data, INT8, &shape};
    const AbsAttrs attrs;
    abs_forward(&attrs, &input, &output);
    for (int64_t i = 0; i < size; ++i)
        require(to.data[i] == abs(pattern(i)), "abs", i);
}

void tile_large()
{
    const int64_t size = LARGE / 3 + 4099;
    Bytes from(size), to(3 * size);
    for (int64_t i = 0; i < size; ++i)
        from.data[i] = pattern(i);
    const std::vector<int64_t> shape = {size}, output_shape = {3 * size};
    const View input = {from.data, INT8, &shape}, output = {to.data, INT8, &output_shape};
    const TileAttrs attrs = {{false, {3}}, -1};
    tile_forward(&attrs, &input, &output);
    for (int64_t i = 0; i < 3 * size; ++i)
        require(to.data[i] == pattern(i % size), "tile", i);
}

void reorg_large()
{
    const int64_t channels = 3, height = 32768, width = 22002, h = height / 2, w = width / 2;
    Bytes from(channels * height * width), to(channels * height * width);
    for (int64_t i = 0; i < channels * height * width; ++i)
        from.data[i] = pattern(i);
    const std::vector<int64_t> shape = {1, channels, height, width}, output_shape = {1, 4 * channels, h, w};
    const View input = {from.data, INT8, &shape}, output = {to.data, INT8, &output_shape};
    const ReorgAttrs attrs = {2, ReorgMode::DCR};
    reorg_forward(&attrs, &input, &output);
    for (int64_t k = 0, i = 0; k < 4 * channels; ++k)
        for (int64_t y = 0; y < h; ++y)
            for (int64_t x = 0; x < w; ++x, ++i) {
                const int64_t block = k / channels, c = k % channels;
                const int64_t source = (c * height + 2 * y + block / 2) * width + 2 * x + block % 2;
                require(to.data[i] == pattern(source), "reorg", i);
            }
}

// Rows of equal float16 logits but for one: the loss and the gradient are known.
void cross_entropy_large()
{
    const int64_t classes = 1024, rows = LARGE / classes + 3;
    Bytes data(2 * rows * classes), grad(2 * rows * classes), loss(2 * rows), max(4 * rows), log_sum(4 * rows);
    Bytes head(2 * rows), labels(4 * rows);
    Half *logits = reinterpret_cast<Half *>(data.data);
    for (int64_t i = 0; i < rows * classes; ++i)
        logits[i] = narrow(i % classes == i / classes % classes ? 8.0f : 0.0f);
    for (int64_t r = 0; r < rows; ++r) {
        reinterpret_cast<int32_t *>(labels.data)[r] = int32_t(r % classes);
        reinterpret_cast<Half *>(head.data)[r] = narrow(1.0f);
    }
    const std::vector<int64_t> shape = {rows, classes}, row_shape = {rows};
    const View inputs[] = {{data.data, FLOAT16, &shape}, {labels.data, INT32, &row_shape}};
    const View outputs[] = {{loss.data, FLOAT16, &row_shape}, {max.data, FLOAT32, &row_shape},
                            {log_sum.data, FLOAT32, &row_shape}};
    const View heads[] = {{head.data, FLOAT16, &row_shape}}, grads[] = {{grad.data, FLOAT16, &shape}, {}};
    const SoftmaxCrossEntropyAttrs attrs;
    softmax_cross_entropy_forward(&attrs, inputs, outputs);
    softmax_cross_entropy_backward(&attrs, heads, inputs, outputs, grads);
    const double sum = exp(8.0) + 1023, hit = exp(8.0) / sum - 1, miss = 1 / sum;
    for (int64_t r = 0; r < rows; ++r) {
        require(fabs(widen(reinterpret_cast<Half *>(loss.data)[r]) - (log(sum) - 8)) < 1e-3, "loss", r);
        for (int64_t c = 0; c < classes; ++c) {
            const double got = widen(reinterpret_cast<Half *>(grad.data)[r * classes + c]);
            require(fabs(got - (c == r % classes ? hit : miss)) < 1e-3 * (c == r % classes ? 1.0 : miss) + 1e-7,
                    "gradient", r * classes + c);
        }
    }
}

}  // namespace

int main()
{
    abs_large();
    tile_large();
    reorg_large();
    cross_entropy_large();
    puts("fine");
    return 0;
}
