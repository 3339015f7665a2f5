// Bilinear sampling of an image for gluonops/data/transforms/augment.py, which has the same arithmetic in NumPy. In C++
// it is one pass, and Python's other threads run meanwhile.
#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "isa.h"

namespace {

const float SCALE = 1.0f / 255;

inline float interpolate(float first, float second, float weight) { return first + (second - first) * weight; }

}  // namespace

// `image` is (height, width, channels). The result goes to `out`, the place of the first pixel on a canvas of float
// (channels, canvas_height, canvas_width): `row_count` x `column_count` pixels in each channel, from 0 to 1. Along each
// axis, a pixel of the result lies between two of the image, and the second one has a weight.
GLUONOPS_PUBLIC void gluonops_place(
    const uint8_t *image, int64_t width, int64_t channels, const int64_t *above, const int64_t *below,
    const float *below_weight, int64_t row_count, const int64_t *left, const int64_t *right,
    const float *right_weight, int64_t column_count, float *out, int64_t canvas_height, int64_t canvas_width)
{
    const int64_t length = width * channels;
    std::vector<float> line(static_cast<size_t>(length));
    for (int64_t row = 0; row < row_count; ++row) {
        const uint8_t *first = image + above[row] * length;
        const uint8_t *second = image + below[row] * length;
        for (int64_t i = 0; i < length; ++i)
            line[size_t(i)] = interpolate(SCALE * float(first[i]), SCALE * float(second[i]), below_weight[row]);
        for (int64_t channel = 0; channel < channels; ++channel) {
            const float *pixels = line.data() + channel;
            float *to = out + (channel * canvas_height + row) * canvas_width;
            for (int64_t column = 0; column < column_count; ++column)
                to[column] = interpolate(pixels[left[column] * channels], pixels[right[column] * channels],
                                         right_weight[column]);
        }
    }
}
