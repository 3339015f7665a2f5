// Class labels: which class a row's label names, if any.
#pragma once

#include "../../native/kernel.h"

namespace gluonops::GLUONOPS_ISA {

const int64_t NO_CLASS = -1, IGNORED = -2;

// A label for each row. The rows with the label `ignore_label`, if there is one, do not count.
struct Labels {
    AnyArray array;
    Optional<int64_t> ignore_label;
};

// Returns those of an operator, from its arguments.
template <typename Args>
inline Labels labels_of(const Args &args) { return {args.label, args.ignore_label}; }

// Returns the class that a label names: 0 to classes - 1, NO_CLASS or IGNORED. A double holds every class exactly.
GLUONOPS_INLINE int64_t class_of_value(const Labels &labels, double value, int64_t classes)
{
    const bool within = value >= 0 && value < double(classes);   // false for NaN
    const int64_t class_id = int64_t(within ? value : 0);
    const bool names_one = within && double(class_id) == value;
    const bool ignored = labels.ignore_label.has_value && value == double(labels.ignore_label.value);
    return ignored ? IGNORED : names_one ? class_id : NO_CLASS;
}

GLUONOPS_OUTLINE int64_t class_of(Labels labels, int64_t row, int64_t classes)
{
    return class_of_value(labels, value_at(labels.array, row), classes);
}

template <typename Label, typename Index>
GLUONOPS_INLINE void typed_classes_of(const Labels &shared_labels, int64_t first_row, int64_t rows, int64_t classes,
                                      Index *ids)
{
    const Labels labels = shared_labels;
    const Label *values = static_cast<const Label *>(labels.array.values) + first_row;
    for (int64_t i = 0; i < rows; ++i)
        ids[i] = Index(class_of_value(labels, double(values[i]), classes));
}

const int64_t MOST_EXACT = 1 << 24;   // float32 holds every whole number up to it

// Finds the classes of labels in float32 by vectors. These are stored whole, and loads of single numbers do not wait
// for them. All classes must be exact in float32, and so must the label to ignore.
GLUONOPS_INLINE void vectors_of_classes(const Labels &labels, int64_t first_row, int64_t rows, float classes,
                                        int32_t *ids)
{
    const float *values = static_cast<const float *>(labels.array.values) + first_row;
    const float ignored = labels.ignore_label.has_value ? float(labels.ignore_label.value) : not_a_number<float>();
    for_each_vector<float>(rows, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
        const Floats value = load(values + j, mask);
        const Ints within = (value >= 0) & (value < classes);   // 0 for NaN
        const Ints class_id = __builtin_convertvector(within ? value : Floats{}, Ints);
        const Ints names_one = within & (__builtin_convertvector(class_id, Floats) == value);
        const Ints valid = names_one ? class_id : Ints{} + int32_t(NO_CLASS);
        const Ints stored = value == ignored ? Ints{} + int32_t(IGNORED) : valid;
        memcpy(ids + j, &stored, WIDTH);
    });
}

// Finds the classes of neighbouring rows, in a few instructions for each of MXNet's usual types of labels.
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

// Does the same where the array has room for whole vectors.
template <typename Index>
GLUONOPS_INLINE void classes_of_block(const Labels &labels, int64_t first_row, int64_t rows, int64_t classes,
                                      Index *ids)
{
    if constexpr (std::is_same<Index, int32_t>::value) {
        const int64_t ignored = labels.ignore_label.has_value ? labels.ignore_label.value : 0;
        const bool exact = classes <= MOST_EXACT && ignored <= MOST_EXACT && ignored >= -MOST_EXACT;
        if (labels.array.type == FLOAT32 && exact)
            return vectors_of_classes(labels, first_row, rows, float(classes), ids);
    }
    classes_of(labels, first_row, rows, classes, ids);
}

}  // namespace gluonops::GLUONOPS_ISA
