// Class labels: which class a row's label names, if any.
#ifndef GLUONOPS_OPS_LABELS_H_
#define GLUONOPS_OPS_LABELS_H_

#include <optional>
#include <vector>

#include "../../native/call.h"
#include "../../native/kernel.h"

namespace gluonops {

const int64_t NO_CLASS = -1, IGNORED = -2;

// A label per row. Where `ignores`, the rows with the label `ignore_label` do not count.
struct Labels {
    AnyArray array;
    bool ignores;
    int64_t ignore_label;
};

// A weight for each class in the type that the data is computed in, and their sum. Without weights `values` is null.
struct ClassWeights {
    const void *values;
    double sum;
};

template <typename A>
inline ClassWeights expanded_weights(const std::vector<double> &given, int64_t classes, Workspace &memory)
{
    A *values = memory.zeros<A>(classes);
    double sum = 0;
    for (int64_t i = 0; i < classes; ++i) {
        const double weight = given[given.size() == 1 ? 0 : size_t(i)];
        values[i] = A(weight);
        sum += weight;
    }
    return {values, sum};
}

// From an attribute, which has a number for each class or a single one. `type` is the data's.
inline ClassWeights class_weights(const std::optional<std::vector<double>> &given, int64_t classes, int type,
                                  Workspace &memory)
{
    if (!given)
        return {nullptr, 0};
    if (type == FLOAT64)
        return expanded_weights<double>(*given, classes, memory);
    return expanded_weights<float>(*given, classes, memory);
}

namespace GLUONOPS_TARGET {

// The class that a row's label names: 0 to classes - 1, NO_CLASS or IGNORED.
GLUONOPS_INLINE int64_t class_of(const Labels &labels, int64_t row, int64_t classes)
{
    const double value = value_at(labels.array, row);   // a double holds every class exactly
    if (labels.ignores && value == double(labels.ignore_label))
        return IGNORED;
    const bool within = value >= 0 && value < double(classes);   // false for NaN
    if (!within)
        return NO_CLASS;
    const int64_t class_id = int64_t(value);
    const bool whole = double(class_id) == value;
    return whole ? class_id : NO_CLASS;
}

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#endif  // GLUONOPS_OPS_LABELS_H_
