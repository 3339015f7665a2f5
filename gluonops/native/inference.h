// Shape inference as MXNet's own operators have it. What lib_api.h offers is not enough: MXNet 1.9.1 adds up the numbers
// of dimensions of all inputs, an unknown one as -1, and writes the known sizes into a buffer of that many.
//
// inference.cc is compiled for the ABI of MXNet's wheels, where std::string is another class. So nothing here, and
// nothing that inference.cc includes, has a string of ours.
#ifndef GLUONOPS_NATIVE_INFERENCE_H_
#define GLUONOPS_NATIVE_INFERENCE_H_

#include <stdint.h>

#include <utility>
#include <vector>

namespace gluonops {

// What is known of a tensor's shape; a size that is unknown is -1.
struct PartialShape {
    bool has_ndim;
    std::vector<int64_t> sizes;
};
typedef std::vector<PartialShape> PartialShapes;

// A node's attributes: names and values.
typedef std::vector<std::pair<const char *, const char *>> Texts;

// An operator's shape inference: fills in what follows, and throws a std::runtime_error where the shapes do not fit.
struct Inference {
    typedef void (*Function)(const Texts &attributes, PartialShapes *inputs, PartialShapes *outputs);

    const char *graph_name;
    Function function;
    const Inference *next;

    static const Inference *first;   // of all operators of this library

    Inference(const char *graph_name, Function function) : graph_name(graph_name), function(function), next(first)
    {
        first = this;
    }
    Inference(const Inference &) = delete;
    Inference &operator=(const Inference &) = delete;
};

// Whether the MXNet that holds the code at this address can be given functions of shape inference. If so, our CustomOps
// have theirs from now on.
bool find_mxnet(const void *inside);

// Gives MXNet every operator's inference, once; it has to know the operators by then. Without find_mxnet it does nothing.
void install_inference();

}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_INFERENCE_H_
