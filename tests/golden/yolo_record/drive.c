/* drive IN OUT: IN has ints B W H n total K T netw neth box_loss new_coords smooth focal; floats ignore truth iou_thresh
   iou_norm obj_norm max_delta scale eps; biases; mask ints; input; truth (T rows of 5). OUT: delta, cost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <float.h>
#include "darknet.h"
#include "yolo_layer.h"
#ifdef AB
extern int gpu_index;
#endif
int main(int c, char **v) {
    int i[13]; float f[8];
    FILE *in = fopen(v[1], "rb"), *out = fopen(v[2], "wb");
    fread(i, 4, 13, in); fread(f, 4, 8, in);
    int B = i[0], W = i[1], H = i[2], n = i[3], total = i[4], K = i[5], T = i[6];
    float *biases = malloc(8 * total); int *mask = malloc(4 * n);
    fread(biases, 4, 2 * total, in); fread(mask, 4, n, in);
#ifdef AB
    gpu_index = -1;
    layer l = make_yolo_layer(B, W, H, n, total, mask, K, T);
    int size = l.truth_size;
#else
    layer l = make_yolo_layer(B, W, H, n, total, mask, K);
    l.max_boxes = T; l.truths = 5 * T; int size = 5;
#endif
    memcpy(l.biases, biases, 8 * total);
    l.ignore_thresh = f[0]; l.truth_thresh = f[1];
    float *input = malloc(4 * B * l.outputs), *rows = malloc(4 * B * T * 5), *truth = calloc(B * T * size, 4);
    fread(input, 4, B * l.outputs, in); fread(rows, 4, B * T * 5, in);
    for (int t = 0; t < B * T; ++t) memcpy(truth + t * size, rows + t * 5, 20);
#ifdef AB
    IOU_LOSS kinds[] = {IOU, GIOU, DIOU, CIOU, MSE};
    l.iou_loss = kinds[i[9]]; l.new_coords = i[10]; l.objectness_smooth = i[11]; l.focal_loss = i[12];
    l.iou_thresh = f[2]; l.iou_normalizer = f[3]; l.obj_normalizer = f[4]; l.max_delta = f[5] > 0 ? f[5] : FLT_MAX;
    l.scale_x_y = f[6]; l.label_smooth_eps = f[7]; l.cls_normalizer = 1; l.iou_thresh_kind = IOU; l.show_details = 0;
    network net = {0}; network_state state = {0};
    uint64_t seen = 0; int a = 0, b = 0; float z[8] = {0};
    net.seen = &seen; int iteration = 0; net.cur_iteration = &iteration; net.batch = B; net.subdivisions = 1; net.w = i[7]; net.h = i[8];
    net.rewritten_bbox = &a; net.total_bbox = &b; net.max_batches = 100;
    state.net = net; state.input = input; state.truth = truth; state.train = 1;
    forward_yolo_layer(l, state);
#else
    network net = {0};
    net.w = i[7]; net.h = i[8]; net.input = input; net.truth = truth; net.train = 1;
    forward_yolo_layer(l, net);
#endif
    fwrite(l.delta, 4, B * l.outputs, out); fwrite(l.cost, 4, 1, out);
    fclose(out); return 0;
}
