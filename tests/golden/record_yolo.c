/* record_yolo IN OUT: the deltas of a [yolo] or [Gaussian_yolo] layer, from random numbers and ground truths.

IN has int32 numbers as HEADER names them, float32 numbers as OPTIONS names them, float32 sizes of all anchors, int32
numbers of the layer's anchors, the float32 input, and float32 rows of 5 numbers per ground truth. OUT gets the float32
deltas and the sum of their squares. record_yolo.py calls it. Build: see README.md. */
#include <float.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "darknet.h"
#include "yolo_layer.h"
#ifdef ALEXEYAB
#include "gaussian_yolo_layer.h"
extern int gpu_index;
#endif

enum {
    GAUSSIAN, BATCH, WIDTH, HEIGHT, ANCHORS, ALL_ANCHORS, CLASSES, TRUTHS, NET_WIDTH, NET_HEIGHT, BOX_LOSS, NEW_COORDS,
    OBJECTNESS_SMOOTH, FOCAL_LOSS, POINT, HEADER
};
enum {
    IGNORE_THRESH, TRUTH_THRESH, IOU_THRESH, IOU_NORMALIZER, OBJ_NORMALIZER, MAX_DELTA, SCALE_X_Y, LABEL_SMOOTH_EPS,
    UC_NORMALIZER, OPTIONS
};
enum { COLUMNS = 5 };

static void *take(FILE *file, size_t count) {
    void *numbers = malloc(4 * count);
    if (fread(numbers, 4, count, file) != count) exit(3);
    return numbers;
}

/* Rows of ground truth as the layer reads them: with more columns in AlexeyAB's program. */
static float *truths_of(layer l, const float *rows, int count, int columns) {
    float *truths = calloc(count * columns, sizeof(float));
    for (int t = 0; t < count; ++t)
        memcpy(truths + t * columns, rows + t * COLUMNS, COLUMNS * sizeof(float));
    return truths;
}

#ifdef ALEXEYAB
static layer make(const int32_t *sizes, const float *options, int32_t *mask) {
    static const IOU_LOSS losses[] = {IOU, GIOU, DIOU, CIOU, MSE};
    static const YOLO_POINT points[] = {YOLO_CENTER, YOLO_LEFT_TOP, YOLO_RIGHT_BOTTOM};
    gpu_index = -1;
    layer l = (sizes[GAUSSIAN] ? make_gaussian_yolo_layer : make_yolo_layer)(
        sizes[BATCH], sizes[WIDTH], sizes[HEIGHT], sizes[ANCHORS], sizes[ALL_ANCHORS], mask, sizes[CLASSES],
        sizes[TRUTHS]);
    l.iou_loss = losses[sizes[BOX_LOSS]];
    l.iou_thresh_kind = IOU;
    l.new_coords = sizes[NEW_COORDS];
    l.objectness_smooth = sizes[OBJECTNESS_SMOOTH];
    l.focal_loss = sizes[FOCAL_LOSS];
    l.yolo_point = points[sizes[POINT]];
    l.iou_thresh = options[IOU_THRESH];
    l.iou_normalizer = options[IOU_NORMALIZER];
    l.obj_normalizer = options[OBJ_NORMALIZER];
    l.cls_normalizer = 1;
    l.uc_normalizer = options[UC_NORMALIZER];
    l.max_delta = options[MAX_DELTA] > 0 ? options[MAX_DELTA] : FLT_MAX;
    l.scale_x_y = options[SCALE_X_Y];
    l.label_smooth_eps = options[LABEL_SMOOTH_EPS];
    l.show_details = 0;
    return l;
}

static void forward(layer l, const int32_t *sizes, float *input, const float *rows) {
    uint64_t seen = 0;
    int iteration = 0, rewritten = 0, total = 0;
    network net = {0};
    net.seen = &seen;
    net.cur_iteration = &iteration;
    net.max_batches = 100;
    net.batch = sizes[BATCH];
    net.subdivisions = 1;
    net.w = sizes[NET_WIDTH];
    net.h = sizes[NET_HEIGHT];
    net.rewritten_bbox = &rewritten;
    net.total_bbox = &total;
    network_state state = {0};
    state.net = net;
    state.input = input;
    state.truth = truths_of(l, rows, sizes[BATCH] * sizes[TRUTHS], l.truth_size);
    state.train = 1;
    (sizes[GAUSSIAN] ? forward_gaussian_yolo_layer : forward_yolo_layer)(l, state);
}
#else
static layer make(const int32_t *sizes, const float *options, int32_t *mask) {
    layer l = make_yolo_layer(sizes[BATCH], sizes[WIDTH], sizes[HEIGHT], sizes[ANCHORS], sizes[ALL_ANCHORS], mask,
                              sizes[CLASSES]);
    l.max_boxes = sizes[TRUTHS];
    l.truths = COLUMNS * sizes[TRUTHS];
    return l;
}

static void forward(layer l, const int32_t *sizes, float *input, const float *rows) {
    network net = {0};
    net.w = sizes[NET_WIDTH];
    net.h = sizes[NET_HEIGHT];
    net.input = input;
    net.truth = truths_of(l, rows, sizes[BATCH] * sizes[TRUTHS], COLUMNS);
    net.train = 1;
    forward_yolo_layer(l, net);
}
#endif

int main(int argc, char **argv) {
    FILE *in = fopen(argv[1], "rb");
    int32_t *sizes = take(in, HEADER);
    float *options = take(in, OPTIONS), *anchors = take(in, 2 * sizes[ALL_ANCHORS]);
    layer l = make(sizes, options, take(in, sizes[ANCHORS]));
    memcpy(l.biases, anchors, 2 * sizes[ALL_ANCHORS] * sizeof(float));
    l.ignore_thresh = options[IGNORE_THRESH];
    l.truth_thresh = options[TRUTH_THRESH];
    size_t numbers = sizes[BATCH] * l.outputs;
    float *input = take(in, numbers);
    forward(l, sizes, input, take(in, sizes[BATCH] * sizes[TRUTHS] * COLUMNS));

    FILE *out = fopen(argv[2], "wb");
    fwrite(l.delta, sizeof(float), numbers, out);
    fwrite(l.cost, sizeof(float), 1, out);
    fclose(out);
    return 0;
}
