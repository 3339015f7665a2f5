// Class labels: which class a row's label names, if any.
#pragma once

#include "../../native/kernel.h"

namespace gluonops::GLUONOPS_ISA {

const int64_t NO_CLASS = -1, IGNORED = -2;

// A label per row. The rows with the label `ignore_label`, if given, do not count.
struct Labels {
    AnyArray array;
    Optional<int64_t> ignore_label;
};

// Returns those of an operator, from its arguments.
template <typename Args>
inline Labels labels_of(const Args &args) { return {args.label, args.ignore_label}; }

// The class that a label names: 0 to classes - 1, NO_CLASS or IGNORED. A double holds every class exactly.
GLUONOPS_INLINE int64_t class_of_value(const Labels &labels, double value, int64_t classes)
{
    const bool within = value >= 0 && value < double(classes);   // false for NaN
    const int64_t class_id = int64_t(within ? value : 0);
    const bool names_one = within && double(class_id) == value;
    const bool ignored = labels.ignore_label.given && value == double(labels.ignore_label.value);
    return ignored ? IGNORED : names_one ? class_id : NO_CLASS;
}

GLUONOPS_OUTLINE int64_t class_of(Labels labels, int64_t row, int64_t classes)
{
    return class_of_value(labels, value_at(labels.array, row), classes);
}

template <typename Label, typename Index>
GLUONOPS_INLINE void typed_classes_of(const Labels &given, int64_t first_row, int64_t rows, int64_t classes, Index *ids)
{
    const Labels labels = given;
    const Label *values = static_cast<const Label *>(labels.array.values) + first_row;
    for (int64_t i = 0; i < rows; ++i)
        ids[i] = Index(class_of_value(labels, double(values[i]), classes));
}

// The classes of neighbouring rows. That takes a few instructions for each of MXNet's usual types of labels.
template <typename Index>
GLUONOPS_OUTLINE void classes_of(Labels labels, int64_t first_row, int64_t rows, int64_t classes, Index *ids)
{
    switch (labels.array.type) {
    case FLOAT32: return typed_classes_of<float>(labels, first_row, rows, classes, ids);
    case INT32: return typed_classes_of<int32_t>(labels, first_row, rows, classes, ids);
    case INT64: return typed_classes_of<int64_t>(labels, first_row, rows, classes, ids);
    }
    for (int64_t i = 0; i < rows; ++i)
        ids[i] = Index(class_of(labels, first_row + i, classes));
}

}  // namespace gluonops::GLUONOPS_ISA
