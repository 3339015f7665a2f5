// Kernels over random shapes, types, attributes and labels, each tensor in memory of exactly its size: run under
// AddressSanitizer and UndefinedBehaviorSanitizer (tests/native/sanitize.sh). Results are compared only where that is
// cheap; the suites compare the rest.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <random>
#include <vector>

#define GLUONOPS_ENTRY   // the functions that fill a kernel's arguments and call it
#include "kernels.cc"   // of the operators in sanitize.sh
#include "native/other_processes.cc"
#include "native/pool.cc"
#include "native/mxnet/runtime.cc"

using namespace gluonops;
using namespace gluonops::GLUONOPS_ISA;

namespace {

std::mt19937_64 generator;

int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(generator); }

int64_t draw_size() { return draw(0, 9) ? draw(1, 9) ? draw(1, 20) : draw(200, 1100) : 0; }

int any_type() { return int(draw(0, 6)); }

int real_type() { return int(draw(0, 2)); }

void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "sanitize: %s\n", what);
        abort();
    }
}

// An array of exactly its size, off the alignment of vectors, filled with numbers of all kinds.
class Array {
 public:
    Array(int type, int64_t items) : Array(type, std::vector<int64_t>{items}) {}
    Array(int type, const std::vector<int64_t> &shape)
        : type_(type), shape_(shape), items_(View{nullptr, type, &shape}.size()),
          memory_(malloc(size_t(items_ * size_of(type)) + 1))
    {
        for (int64_t i = 0; i < items_; ++i)
            set(i, draw(0, 50) ? double(draw(-1000, 1000)) / 64 : draw(0, 1) ? INFINITY : NAN);
    }
    ~Array() { free(memory_); }
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;

    void set(int64_t i, double value)
    {
        if (type_ > FLOAT16 && !(fabs(value) < 100))
            value = 0;
        switch (type_) {
        case FLOAT32: static_cast<float *>(memory_)[i] = float(value); break;
        case FLOAT64: static_cast<double *>(memory_)[i] = value; break;
        case FLOAT16: static_cast<Half *>(memory_)[i] = narrow(float(value)); break;
        case UINT8: static_cast<uint8_t *>(memory_)[i] = uint8_t(fabs(value)); break;
        case INT32: static_cast<int32_t *>(memory_)[i] = int32_t(value); break;
        case INT8: static_cast<int8_t *>(memory_)[i] = int8_t(value); break;
        default: static_cast<int64_t *>(memory_)[i] = int64_t(value);
        }
    }
    double get(int64_t i) const { return value_at({memory_, type_}, i); }
    void *data() const { return memory_; }
    int64_t items() const { return items_; }
    View view() const { return {memory_, type_, &shape_}; }

 private:
    int type_;
    std::vector<int64_t> shape_;
    int64_t items_;
    void *memory_;
};

void abs_round()
{
    const int type = any_type();
    const int64_t items = draw(0, 3) ? draw_size() * draw_size() : draw(8000, 70000);
    const Array data(type, items), head(type, items), output(type, items), grad(type, items);
    const View inputs[] = {data.view()}, outputs[] = {output.view()}, heads[] = {head.view()}, grads[] = {grad.view()};
    abs_forward({}, inputs, outputs);
    abs_backward({}, heads, inputs, outputs, grads);
    for (int64_t i = 0; i < items; ++i)
        require(data.get(i) != data.get(i) || output.get(i) == fabs(data.get(i)), "abs");
}

void tile_round()
{
    const int type = any_type(), ndim = int(draw(1, 5));
    std::vector<int64_t> shape, repeats;
    int64_t copies = 1;
    for (int i = 1; i <= ndim; ++i) {
        shape.push_back(draw(0, 30) ? draw(1, i == ndim ? 40 : 5) : 0);
        repeats.push_back(draw(1, i == ndim ? 70 : 3));
        copies *= repeats.back();
    }
    if (ndim == 1 && !draw(0, 3))
        shape[0] = draw(1000, 20000);
    const TileAttrs attrs = {{true, repeats}, -1};
    const Array data(type, shape), output(type, data.items() * copies), grad(type, shape);
    const View inputs[] = {data.view()}, outputs[] = {output.view()}, grads[] = {grad.view()};
    tile_forward(attrs, inputs, outputs);
    if (data.items())
        require(!memcmp(data.data(), output.data(), size_t(shape.back() * size_of(type))), "tile");
    tile_backward(attrs, outputs, inputs, outputs, grads);
}

void reorg_round()
{
    const int type = any_type();
    const ReorgAttrs attrs = {draw(1, 5), ReorgMode::Value(draw(0, 2)), draw(0, 1) == 1};
    const int64_t s = attrs.stride, channels = draw(1, 4), height = draw(1, 4);
    const int64_t width = draw(0, 3) ? draw(1, 12) : draw(12, 90);
    const bool divides_channels = attrs.reverse || attrs.mode == ReorgMode::Darknet;
    const int64_t block = attrs.reverse ? 1 : s;
    const Array from(type, {draw(0, 3), channels * (divides_channels ? s * s : 1), height * block, width * block});
    const Array to(type, from.items()), back(type, from.items());
    const View inputs[] = {from.view()}, outputs[] = {to.view()}, grads[] = {back.view()};
    reorg_forward(attrs, inputs, outputs);
    reorg_backward(attrs, outputs, inputs, outputs, grads);
    require(!memcmp(from.data(), back.data(), size_t(from.items() * size_of(type))), "reorg there and back");
}

RowSizes draw_rows()
{
    return {draw(0, 12), draw(0, 3) ? draw(1, 70) : draw_size(),
            draw(0, 1) ? 1 : draw(0, 5) ? draw(0, 40) : draw(500, 1200)};
}

// Labels of which some are no class at all.
void spoil(Array *labels, int64_t classes)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY, 1e30, -1e30, 0.5, -1, -2, 1e18};
    for (int64_t i = 0; i < labels->items(); ++i)
        labels->set(i, draw(0, 3) ? double(draw(0, classes)) : bad[draw(0, 8)]);
}

void softmax_round()
{
    const int type = real_type();
    const RowSizes sizes = draw_rows();
    const std::vector<int64_t> shape = {sizes.outer, sizes.length, sizes.inner};
    const Array data(type, shape), output(type, shape), head(type, shape), grad(type, shape);
    const View inputs[] = {data.view()}, outputs[] = {output.view()}, heads[] = {head.view()}, grads[] = {grad.view()};
    SoftmaxAttrs attrs;
    attrs.axis = draw(0, 1) ? 1 : -2;
    attrs.temperature = double(draw(1, 80)) / 16;
    softmax_forward(attrs, inputs, outputs);
    softmax_backward(attrs, heads, inputs, outputs, grads);
}

void softmax_output_round()
{
    const int type = real_type(), label_type = any_type();
    const RowSizes sizes = draw_rows();
    const int64_t rows = sizes.outer * sizes.inner;
    const std::vector<int64_t> shape = {sizes.outer, sizes.length, sizes.inner}, row_shape = {sizes.outer, sizes.inner};
    const Array data(type, shape), output(type, shape), grad(type, shape);
    Array label(label_type, row_shape);
    spoil(&label, sizes.length);
    SoftmaxOutputAttrs attrs;
    attrs.axis = 1;
    attrs.normalization = SoftmaxOutputNormalization::Value(draw(0, 2));
    if (draw(0, 1))
        attrs.ignore_label = draw(-2, 3);
    const View inputs[] = {data.view(), label.view()}, outputs[] = {output.view()}, grads[] = {grad.view(), {}};
    softmax_output_forward(attrs, inputs, outputs);
    softmax_output_backward(attrs, nullptr, inputs, outputs, grads);
    const Labels labels = {label.view().any(), {attrs.ignore_label.has_value(), attrs.ignore_label.value_or(0)}};
    for (int64_t r = 0; r < rows && sizes.length; ++r) {
        const int64_t class_id = class_of(labels, r, sizes.length);
        const double got = grad.get(r / sizes.inner * sizes.length * sizes.inner + r % sizes.inner);
        require(class_id != IGNORED || got == 0, "an ignored row's gradient");
        require(class_id != NO_CLASS || got != got, "the gradient of a label that is no class");
    }
}

void cross_entropy_round()
{
    const int type = real_type(), wide = type == FLOAT64 ? FLOAT64 : FLOAT32, label_type = any_type();
    const RowSizes sizes = draw_rows();
    const int64_t rows = sizes.outer * sizes.inner;
    const std::vector<int64_t> shape = {sizes.outer, sizes.length, sizes.inner}, row_shape = {sizes.outer, sizes.inner};
    SoftmaxCrossEntropyAttrs attrs;
    attrs.axis = 1;
    attrs.sparse_label = draw(0, 2) > 0;
    attrs.smoothing = draw(0, 1) ? 0.1 : 0.0;
    const bool sparse = attrs.sparse_label;
    if (sparse && draw(0, 1))
        attrs.ignore_label = draw(-2, 3);
    if (draw(0, 2) == 0)
        attrs.class_weight = std::vector<double>(size_t(draw(0, 1) ? 1 : sizes.length), 0.5);
    const Array data(type, shape), output(type, row_shape), max(wide, row_shape), log_sum(wide, row_shape);
    const Array head(type, row_shape), data_grad(type, shape), label_grad(type, sparse ? row_shape : shape);
    Array label(sparse ? label_type : type, sparse ? row_shape : shape);
    if (sparse)
        spoil(&label, sizes.length);
    const View inputs[] = {data.view(), label.view()}, outputs[] = {output.view(), max.view(), log_sum.view()};
    const View heads[] = {head.view()}, grads[] = {data_grad.view(), label_grad.view()};
    softmax_cross_entropy_forward(attrs, inputs, outputs);
    softmax_cross_entropy_backward(attrs, heads, inputs, outputs, grads);
    const Labels labels = {label.view().any(), {attrs.ignore_label.has_value(), attrs.ignore_label.value_or(0)}};
    for (int64_t r = 0; sparse && r < rows && sizes.length; ++r) {
        const int64_t class_id = class_of(labels, r, sizes.length);
        const double got = data_grad.get(r / sizes.inner * sizes.length * sizes.inner + r % sizes.inner);
        require(class_id != IGNORED || (got == 0 && output.get(r) == 0), "an ignored row");
        require(class_id != NO_CLASS || (got != got && output.get(r) != output.get(r)), "a label that is no class");
    }
}

void center_loss_round()
{
    const int type = real_type(), label_type = any_type();
    const int64_t batch = draw_size(), classes = draw(1, 30), features = draw_size();
    const std::vector<int64_t> samples = {batch, features}, all_classes = {classes, features};
    const Array data(type, samples), centers(type, all_classes), output(type, batch), head(type, batch);
    const Array data_grad(type, samples), label_grad(label_type, batch), centers_grad(type, all_classes);
    Array label(label_type, batch);
    spoil(&label, classes);
    const View inputs[] = {data.view(), label.view(), centers.view()}, outputs[] = {output.view()};
    const View heads[] = {head.view()}, grads[] = {data_grad.view(), label_grad.view(), centers_grad.view()};
    center_loss_forward({}, inputs, outputs);
    center_loss_backward({}, heads, inputs, outputs, grads);
    const Labels labels = {label.view().any(), {}};
    std::vector<bool> found(size_t(classes), false);
    for (int64_t r = 0; r < batch; ++r) {
        const int64_t class_id = class_of(labels, r, classes);
        if (class_id != NO_CLASS)
            found[size_t(class_id)] = true;
        require(class_id != NO_CLASS || (output.get(r) != output.get(r) &&
                                         (!features || data_grad.get(r * features) != data_grad.get(r * features))),
                "a label that is no class");
    }
    for (int64_t j = 0; j < classes * features; ++j)
        require(found[size_t(j / features)] || centers_grad.get(j) == 0, "the centre of an absent class");
}

std::vector<double> draw_anchors()
{
    std::vector<double> anchors(size_t(2 * draw(1, 6)));
    for (double &size : anchors)
        size = double(draw(1, 60)) / 8;
    return anchors;
}

// Attributes that every operator on a map has, and the shape of the map, whose predictions have `numbers` channels in
// front of the classes.
template <typename Attrs>
std::vector<int64_t> draw_map(Attrs *attrs, int64_t numbers)
{
    attrs->anchors = draw_anchors();
    attrs->classes = draw(0, 3) ? draw(1, 8) : draw(20, 90);
    return {draw(0, 4), int64_t(attrs->anchors.size() / 2) * (numbers + attrs->classes), draw(0, 9) ? draw(1, 9) : 0,
            draw(0, 3) ? draw(1, 9) : draw(20, 60)};
}

void region_decode_round()
{
    const int type = real_type();
    RegionDecodeAttrs attrs;
    const std::vector<int64_t> shape = draw_map(&attrs, 5);
    attrs.softmax = draw(0, 1) == 1;
    attrs.layout = RegionDecodeLayout::Value(draw(0, 1));
    const Array data(type, shape), output(type, shape), head(type, shape), grad(type, shape);
    const View inputs[] = {data.view()}, outputs[] = {output.view()}, heads[] = {head.view()}, grads[] = {grad.view()};
    region_decode_forward(attrs, inputs, outputs);
    region_decode_backward(attrs, heads, inputs, outputs, grads);
}

// Rows of padding, boxes, and now and then a row that is none.
void draw_boxes(Array *truth, int64_t classes)
{
    for (int64_t row = 0; row < truth->items() / 5; ++row) {
        const bool padding = !draw(0, 3);
        for (int c = 0; c < 5; ++c)
            truth->set(5 * row + c, padding ? 0 : c == 4 ? double(draw(0, classes - 1)) : double(draw(c / 2, 64)) / 64);
        if (!draw(0, 60))
            truth->set(5 * row + draw(0, 4), draw(0, 1) ? NAN : double(draw(-3, 3)) * 1e4);
    }
}

bool has_invalid_box(const Array &truth, int64_t truths, int64_t image, int64_t classes)
{
    for (int64_t row = image * truths; row < (image + 1) * truths; ++row) {
        double numbers[5];
        for (int64_t i = 0; i < 5; ++i)
            numbers[i] = truth.get(5 * row + i);
        const GroundTruth<double> box(numbers, 0, classes, 1, 1);
        if (!box.padding && !box.valid)
            return true;
    }
    return false;
}

// Only region_loss reads the third input.
template <typename Attrs>
void map_loss_round(const Attrs &attrs, const std::vector<int64_t> &shape,
                    void (*forward)(const Attrs &, Arrays, Arrays),
                    void (*backward)(const Attrs &, Arrays, Arrays, Arrays, Arrays))
{
    const int type = real_type(), wide = type == FLOAT64 ? FLOAT64 : FLOAT32;
    const int64_t batch = shape[0], truths = draw(0, 12);
    const Array data(type, shape), seen(any_type(), 1), output(type, batch), parts(wide, {batch, PARTS});
    const Array gradient(wide, shape), head(type, batch), grad(type, shape);
    Array truth(type, {batch, truths, 5});
    draw_boxes(&truth, attrs.classes);
    const View inputs[] = {data.view(), truth.view(), seen.view()}, heads[] = {head.view()};
    const View outputs[] = {output.view(), parts.view(), gradient.view()}, grads[] = {grad.view(), {}, {}};
    forward(attrs, inputs, outputs);
    backward(attrs, heads, inputs, outputs, grads);
    for (int64_t b = 0; b < batch && data.items(); ++b) {
        const double first = gradient.get(b * (data.items() / batch));
        require(!has_invalid_box(truth, truths, b, attrs.classes) || (output.get(b) != output.get(b) && first != first),
                "an image with a row that is no box");
    }
}

void region_loss_round()
{
    RegionLossAttrs attrs;
    const std::vector<int64_t> shape = draw_map(&attrs, 5);
    attrs.rescore = draw(0, 1) == 1;
    attrs.bias_match = draw(0, 1) == 1;
    attrs.softmax = draw(0, 1) == 1;
    attrs.warmup_images = draw(0, 20);
    attrs.box_loss = RegionLossBoxLoss::Value(draw(0, 1));
    map_loss_round(attrs, shape, region_loss_forward, region_loss_backward);
}

// Attributes that both losses have, and the shape of the map.
template <typename Attrs>
std::vector<int64_t> draw_yolo(Attrs *attrs, int64_t numbers)
{
    if (draw(0, 3))
        attrs->other_anchors = draw_anchors();
    attrs->objectness_smooth = draw(0, 1) == 1;
    attrs->box_loss = decltype(attrs->box_loss)(draw(0, 4));
    attrs->truth_thresh = draw(0, 1) ? 0.6 : 1.0;
    attrs->iou_thresh = draw(0, 1) ? 0.3 : 1.0;
    attrs->max_delta = double(draw(0, 1));
    attrs->scale_x_y = 1.1;
    attrs->label_smooth_eps = 0.1;
    return draw_map(attrs, numbers);
}

void yolo_loss_round()
{
    YoloLossAttrs attrs;
    const std::vector<int64_t> shape = draw_yolo(&attrs, 5);
    attrs.dialect = YoloLossDialect::Value(draw(0, 1));
    attrs.new_coords = draw(0, 1) == 1;
    attrs.focal_loss = draw(0, 1) == 1;
    map_loss_round(attrs, shape, yolo_loss_forward, yolo_loss_backward);
}

void gaussian_yolo_loss_round()
{
    GaussianYoloLossAttrs attrs;
    const std::vector<int64_t> shape = draw_yolo(&attrs, 9);
    attrs.point = GaussianYoloLossPoint::Value(draw(0, 2));
    map_loss_round(attrs, shape, gaussian_yolo_loss_forward, gaussian_yolo_loss_backward);
}

// Every float16 there and back, and rounding half to even in between.
void half_round()
{
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const Half half = {uint16_t(bits)};
        const float value = widen(half);
        const bool nan = (bits & 0x7fff) > 0x7c00;
        require(nan ? value != value : narrow(value).bits == bits, "float16 there and back");
        if (!nan && (bits & 0x7fff) < 0x7bff) {
            const Half above = {uint16_t(bits + 1)};
            const float middle = float((double(value) + double(widen(above))) / 2);
            require(narrow(middle).bits == (bits & 1 ? bits + 1 : bits), "float16 rounds half to even");
        }
    }
}

}  // namespace

int main(int count, char **arguments)
{
    const int64_t rounds = count > 1 ? atoll(arguments[1]) : 2000;
    generator.seed(count > 2 ? uint64_t(atoll(arguments[2])) : 0);
    half_round();
    void (*const all[])() = {abs_round, tile_round, reorg_round, softmax_round, softmax_output_round,
                             cross_entropy_round, center_loss_round, region_decode_round, region_loss_round,
                             yolo_loss_round, gaussian_yolo_loss_round};
    for (int64_t i = 0; i < rounds; ++i)
        for (const auto round : all)
            round();
    printf("%lld rounds of every kernel, %d bytes per vector\n", static_cast<long long>(rounds), int(WIDTH));
    return 0;
}
