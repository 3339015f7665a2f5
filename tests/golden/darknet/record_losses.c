/* record_losses CFG INPUT TRUTH SEEN OUT: the deltas of a cfg whose first layer is a convolution of 1 x 1.

The convolution returns what it takes, so INPUT is what the head takes. Both files are float32, for the whole batch.
TRUTH is in the layout of the program. OUT gets the deltas of the convolution, behind the backward pass, and those of the
last layer. Build: see README.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "darknet.h"
#include "network.h"
#include "parser.h"
#ifdef ALEXEYAB
extern int gpu_index;
#endif

static float *read_floats(const char *path, int *count) {
    FILE *file = fopen(path, "rb");
    fseek(file, 0, SEEK_END);
    *count = ftell(file) / sizeof(float);
    rewind(file);
    float *numbers = malloc(*count * sizeof(float));
    if (fread(numbers, sizeof(float), *count, file) != (size_t)*count) exit(3);
    fclose(file);
    return numbers;
}

static void make_identity(layer l) {
    memset(l.weights, 0, l.nweights * sizeof(float));
    memset(l.biases, 0, l.n * sizeof(float));
    for (int i = 0; i < l.n; ++i) l.weights[i * l.n + i] = 1;
}

int main(int argc, char **argv) {
    if (argc != 6) return 2;
    int numbers, truths;
    float *input = read_floats(argv[2], &numbers), *truth = read_floats(argv[3], &truths);
#ifdef ALEXEYAB
    gpu_index = -1;
    network net = parse_network_cfg(argv[1]);
    *net.seen = atoi(argv[4]);
    make_identity(net.layers[0]);
    network_state state = {0};
    state.net = net;
    state.input = input;
    state.truth = truth;
    state.train = 1;
    forward_network(net, state);
    backward_network(net, state);
    int count = net.n, batch = net.batch;
    layer *layers = net.layers;
#else
    network *net = parse_network_cfg(argv[1]);
    *net->seen = atoi(argv[4]);
    make_identity(net->layers[0]);
    layer *last = net->layers + net->n - 1;
    if (last->type == REGION) last->temperature = 1; /* its CPU build divides by 0 */
    memcpy(net->input, input, numbers * sizeof(float));
    net->truth = truth;
    net->train = 1;
    forward_network(net);
    backward_network(net);
    int count = net->n, batch = net->batch;
    layer *layers = net->layers;
#endif
    if (numbers != batch * layers[0].outputs) return 4;
    FILE *file = fopen(argv[5], "wb");
    fwrite(layers[0].delta, sizeof(float), numbers, file);
    fwrite(layers[count - 1].delta, sizeof(float), numbers, file);
    fclose(file);
    return 0;
}
