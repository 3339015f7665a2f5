// Types from which the arguments of a kernel are filled: tensors, typed attributes, and memory to work in. The struct
// that holds the arguments is generated from the operator's contract, and cuda/record.inl has the types of its members.
#pragma once

#include <math.h>
#include <stdint.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "../record.h"

namespace gluonops {

// A tensor.
struct View {
    void *data = nullptr;
    int type = -1;
    const std::vector<int64_t> *sizes = nullptr;

    const std::vector<int64_t> &shape() const { return *sizes; }
    int64_t size() const { return product(0, ndim()); }
    int64_t samples() const { return product(0, 1); }
    int64_t ndim() const { return int64_t(sizes->size()); }
    // The first function returns an axis that may count from the back as one that does not, and the second one the size
    // along it.
    int64_t axis(int64_t axis) const { return axis < 0 ? axis + ndim() : axis; }
    int64_t along(int64_t axis) const { return (*sizes)[size_t(this->axis(axis))]; }
    // Returns the product of the sizes from the axis `begin` to the one before `end`.
    int64_t product(int64_t begin, int64_t end) const
    {
        int64_t items = 1;
        for (int64_t axis = begin; axis < end; ++axis)
            items *= (*sizes)[size_t(axis)];
        return items;
    }
    template <typename T>
    T *as() const { return static_cast<T *>(data); }
    AnyArray any() const { return {data, type}; }
};

typedef const View *Arrays;

// An attribute that is an integer or a tuple of integers; an integer is values[0].
struct Integers {
    bool is_tuple;
    std::vector<int64_t> values;
};

// Memory that lasts as long as the call.
class Workspace {
 public:
    // Returns `count` objects, all of whose bytes are zero.
    template <typename T>
    T *zeros(int64_t count)
    {
        const auto block = std::make_shared<std::vector<T>>(size_t(count));
        blocks_.push_back(block);
        return block->data();
    }

 private:
    std::vector<std::shared_ptr<void>> blocks_;
};

// Returns the numbers of an attribute that has one for each index of a dimension, or a single one for all.
template <typename A>
Weights<A> weights_of(const std::optional<std::vector<double>> &numbers, int64_t size, Workspace &memory)
{
    if (!numbers)
        return {nullptr, 0};
    A *values = memory.zeros<A>(size);
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) {
        const double value = (*numbers)[numbers->size() == 1 ? 0 : size_t(i)];
        values[i] = A(value);
        sum += value;
    }
    return {values, sum};
}

}  // namespace gluonops
