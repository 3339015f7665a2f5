/* record CFG WEIGHTS INPUT OUT FOLD [THRESHOLD NMS]: what Darknet computes, layer by layer.

OUT gets int32 the number of layers; for each layer int32 outputs, channels, height, width, and its float32 output; then
rows of float32 class, probability, x, y, width, height of the detections. FOLD=1 folds batch norms and packs xnor
weights, as AlexeyAB's detector does. The last line of the standard output is the CPU time of a second call, in seconds.
Build: see README.md. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "darknet.h"
#include "network.h"
#include "parser.h"
#ifdef ALEXEYAB
#include "box.h"
void fuse_conv_batchnorm(network net);
void calculate_binary_weights(network net);
extern int gpu_index;

static network *load(char **argv) {
    static network net;
    gpu_index = -1;
    net = parse_network_cfg_custom(argv[1], 1, 1);
    load_weights(&net, argv[2]);
    if (atoi(argv[5])) {
        fuse_conv_batchnorm(net);
        calculate_binary_weights(net);
    }
    return &net;
}

static void predict(network *net, float *input) { network_predict(*net, input); }

static layer output_of(layer l) { return l.antialiasing ? *l.input_layer : l; }

static int is_head(layer l) {
    return l.type == YOLO || l.type == GAUSSIAN_YOLO || l.type == REGION || l.type == DETECTION;
}

static detection *boxes(network *net, float threshold, int *count) {
    return get_network_boxes(net, 1, 1, threshold, .5, 0, 1, count, 0);
}

static void suppress(detection *found, int count, layer l, float nms) {
    if (l.nms_kind == DEFAULT_NMS) do_nms_sort(found, count, l.classes, nms);
    else diounms_sort(found, count, l.classes, nms, l.nms_kind, l.beta_nms);
}
#else
static network *load(char **argv) {
    network *net = parse_network_cfg(argv[1]);
    load_weights(net, argv[2]);
    set_batch_network(net, 1);
    return net;
}

static void predict(network *net, float *input) { network_predict(net, input); }

static layer output_of(layer l) { return l; }

static int is_head(layer l) { return l.type == YOLO || l.type == REGION || l.type == DETECTION; }

static detection *boxes(network *net, float threshold, int *count) {
    layer last = net->layers[net->n - 1];
    if (last.type == DETECTION) return get_network_boxes(net, 1, 1, threshold, .5, 0, 1, count);
    return get_network_boxes(net, net->w, net->h, threshold, .5, 0, 1, count);
}

static void suppress(detection *found, int count, layer l, float nms) { do_nms_sort(found, count, l.classes, nms); }
#endif

int main(int argc, char **argv) {
    network *net = load(argv);
    float *input = malloc(net->inputs * sizeof(float));
    FILE *file = fopen(argv[3], "rb");
    if (fread(input, sizeof(float), net->inputs, file) != (size_t)net->inputs) return 3;
    fclose(file);
    predict(net, input);

    file = fopen(argv[4], "wb");
    int32_t layers = net->n;
    fwrite(&layers, 4, 1, file);
    layer head = net->layers[0];
    for (int i = 0; i < net->n; ++i) {
        if (is_head(net->layers[i])) head = net->layers[i];
        layer l = output_of(net->layers[i]);
        int32_t shape[4] = {l.outputs, l.out_c, l.out_h, l.out_w};
        fwrite(shape, 4, 4, file);
        fwrite(l.output, sizeof(float), l.outputs, file);
    }
    if (argc > 7) {
        int count = 0;
        detection *found = boxes(net, atof(argv[6]), &count);
        suppress(found, count, head, atof(argv[7]));
        for (int i = 0; i < count; ++i) {
            for (int k = 0; k < head.classes; ++k) {
                box b = found[i].bbox;
                float row[6] = {k, found[i].prob[k], b.x, b.y, b.w, b.h};
                if (row[1] > 0) fwrite(row, sizeof(float), 6, file);
            }
        }
    }
    fclose(file);
    clock_t begin = clock();
    predict(net, input);
    printf("\n%.6f\n", (double)(clock() - begin) / CLOCKS_PER_SEC);
    return 0;
}
