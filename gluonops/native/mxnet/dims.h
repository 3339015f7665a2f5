// Shape inference in both directions from one declaration, as gluonops/contract/dims.py does it: a tensor's shape is a
// pattern of dimensions, named ones, which attributes may multiply or divide, and fixed ones. The patterns of an
// operator are generated from its contract.
#pragma once

#include <stdint.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "refusal.h"
#include "registration.h"
#include "wide.h"

namespace gluonops {

typedef std::vector<int64_t> Shape;

const int64_t UNKNOWN = -1;   // a size

// A tensor of float64 with so many elements fills the address space.
const int64_t MOST_ELEMENTS = int64_t(1) << 60;

const int MAX_NDIM = 8;   // The most that inference tries for an input of unknown shape.

// A factor from attributes, and what the user calls it. Without a label there is no factor, so it is 1.
struct Size {
    std::string label;
    Wide value = 1;

    // Returns the first attribute in the label: what the user can choose.
    std::string attribute() const { return label.substr(0, label.find(' ')); }
    std::string text() const
    {
        if (label == value.text())   // no attribute, but a number
            return label;
        return label + (label.find(' ') == std::string::npos ? " " : " = ") + value.text();
    }
};

// A named dimension as it was written, `height / factor`; without a name, a fixed size with or without a label.
struct Dim {
    std::string name, text;
    Size mul, div;
    Size fixed_size;

    bool fixed() const { return name.empty(); }

    struct Scaled {
        bool whole;
        Wide value;
    };
    // The first function returns this size if the bare dimension has the size `base`, and the second one the opposite.
    Scaled value(Wide base) const { return scaled(base, mul.value, div.value); }
    Scaled base(Wide size) const { return scaled(size, div.value, mul.value); }

 private:
    static Scaled scaled(Wide size, Wide up, Wide down)
    {
        const Wide product = size * up;
        return {product % down == 0, product / down};
    }
};

typedef std::vector<Dim> Pattern;

inline Dim named(const std::string &name) { return {name, name, {}, {}, {}}; }

inline Dim named(const std::string &name, const std::string &text, Size mul, Size div)
{
    return {name, text, std::move(mul), std::move(div), {}};
}

// Refuses what attributes make of a size where it is too small, or 64 bits do not hold it.
inline void check_attributes(const char *where, const std::string &label, Wide value, int64_t low)
{
    if (value < low)
        refuse(where, label + " is " + value.text() + "; expected at least " + std::to_string(low),
               "Choose attributes that make it larger");
    if (value > INT64_MAX)
        refuse(where, label + " is more than 2**63 - 1", "Choose smaller attributes");
}

inline Dim fixed(const char *where, Wide value, const std::string &label = "")
{
    check_attributes(where, label, value, 0);
    return {"", value.text(), {}, {}, {label, value}};
}

inline Size factor(const char *where, const std::string &label, Wide value)
{
    check_attributes(where, label, value, 1);
    return {label, value};
}

// Returns the patterns one behind another.
inline Pattern joined(std::initializer_list<Pattern> patterns)
{
    Pattern all;
    for (const Pattern &pattern : patterns)
        all.insert(all.end(), pattern.begin(), pattern.end());
    return all;
}

// Returns the dimensions of a group, `name...`, which stands at the positions from begin to end. They are named after
// their positions.
inline Pattern group(const std::string &name, int64_t begin, int64_t end)
{
    Pattern dims;
    for (int64_t i = begin; i < end; ++i)
        dims.push_back(named(i || name.empty() ? "dim" + std::to_string(i) : name));
    return dims;
}

inline std::string plural(size_t count, const char *what)
{
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// Returns the axis counted from the front.
inline int64_t normalized_axis(const char *where, int64_t axis, int ndim, const char *what = "data")
{
    if (axis < -ndim || axis >= ndim)
        refuse(where, "axis " + std::to_string(axis) + " is out of range for " + what + " of " +
               plural(size_t(ndim), "dimension"),
               "Choose an axis from " + std::to_string(-ndim) + " to " + std::to_string(ndim - 1));
    return axis < 0 ? axis + ndim : axis;
}

// Returns the numbers that multiply a group: the attribute's tuple, or its integer at the axis and 1 elsewhere.
inline std::vector<int64_t> counts_at(const char *where, const Integers &counts, int64_t axis, const Pattern &dims)
{
    if (counts.is_tuple)
        return counts.values;
    std::vector<int64_t> result(dims.size(), 1);
    result[size_t(normalized_axis(where, axis, int(dims.size())))] = counts.values[0];
    return result;
}

// Returns `group * counts`: the last dimension is multiplied by the last count, and so on. Counts without a dimension
// are sizes of their own.
inline Pattern repeated(const char *where, const Pattern &dims, const char *label, const std::vector<int64_t> &counts)
{
    const size_t added = counts.size() > dims.size() ? counts.size() - dims.size() : 0;
    const size_t missing = dims.size() > counts.size() ? dims.size() - counts.size() : 0;
    Pattern result;
    for (size_t i = 0; i < added; ++i)
        result.push_back(fixed(where, counts[i]));
    for (size_t i = 0; i < dims.size(); ++i) {
        const Wide count = i < missing ? 1 : counts[added + i - missing];
        result.push_back(named(dims[i].name, dims[i].name + " * " + label, factor(where, label, count), {}));
    }
    return result;
}

// What an operator can do for a dimension that does not divide: its name, and what the user can change.
typedef std::vector<std::pair<const char *, const char *>> Remedies;

// An attribute with a number for each index of a dimension, or a single one for all; without numbers, 0.
struct Count {
    const char *attribute, *dimension;
    int64_t numbers;
};

inline int64_t number_of(const std::optional<std::vector<double>> &values)
{
    return values ? int64_t(values->size()) : 0;
}

// The declared shape of every tensor, inputs first, dimensions that must come out whole although no tensor has them,
// and attributes that have as many numbers as a dimension.
struct Shapes {
    std::vector<Pattern> patterns;
    Pattern whole;
    Remedies remedies;
    std::vector<Count> counts;
};

// Returns whether a tensor with these sizes, of which some may be UNKNOWN, has more elements than any can have.
inline bool too_many_elements(const Shape &shape)
{
    Wide elements = 1;
    for (const int64_t size : shape)
        elements = elements * (size == UNKNOWN ? 1 : size);
    return elements > MOST_ELEMENTS;
}

// What is known of a tensor's shape.
struct KnownShape {
    const char *name;
    bool has_ndim;
    Shape shape;
};

inline std::string pattern_text(const Pattern &dims)
{
    return tuple_text(dims, [](const Dim &dim) { return dim.text; });
}

// Works out the shapes of one operator's tensors. It does the work of gluonops/contract/dims.py, with the same
// messages.
class Solver {
 public:
    Solver(const char *where, const Shapes &declared, const std::vector<KnownShape> &tensors)
        : where_(where), declared_(declared), tensors_(tensors)
    {
    }

    // Returns a shape for every tensor, in which a size that does not follow is UNKNOWN. Refuses shapes that do not
    // fit.
    std::vector<Shape> solve()
    {
        for (size_t t = 0; t < tensors_.size(); ++t)
            if (tensors_[t].has_ndim)
                read(t);
        for (const Pattern &pattern : declared_.patterns)
            for (const Dim &dim : pattern)
                check_value(dim);
        for (const Dim &dim : declared_.whole)
            check_value(dim);
        std::vector<Shape> result(declared_.patterns.size());
        for (size_t t = 0; t < result.size(); ++t)
            for (const Dim &dim : declared_.patterns[t])
                result[t].push_back(size_of(t, dim));
        for (size_t t = 0; t < result.size(); ++t)
            if (too_many_elements(result[t]))
                refuse(where_, described(t) + " has more than 2**60 elements", "Choose smaller attributes");
        for (const Count &count : declared_.counts)
            check_count(count);
        return result;
    }

 private:
    // A named dimension's size without factors, and the tensor it was read from.
    struct Base {
        std::string name;
        Wide size;
        const KnownShape *source;
    };

    const Base *find(const std::string &name) const
    {
        for (const Base &base : bases_)
            if (base.name == name)
                return &base;
        return nullptr;
    }

    static std::string has_shape(const KnownShape &tensor)
    {
        return std::string(tensor.name) + " has shape " + shape_text(tensor.shape);
    }

    // Takes the sizes of one tensor.
    void read(size_t t)
    {
        const KnownShape &tensor = tensors_[t];
        const Pattern &pattern = declared_.patterns[t];
        if (tensor.shape.size() != pattern.size())
            refuse(where_, has_shape(tensor) + "; expected " + plural(pattern.size(), "dimension") + " " +
                   pattern_text(pattern), "Reshape it");
        for (size_t i = 0; i < pattern.size(); ++i) {
            if (tensor.shape[i] == UNKNOWN)
                continue;
            const Dim::Scaled base = pattern[i].base(tensor.shape[i]);
            if (base.whole && base.value > largest_size)
                refuse(where_, has_shape(tensor) + "; " + (pattern[i].fixed() ? "a size" : pattern[i].name) +
                       " is above " + std::to_string(largest_size), "Choose smaller attributes");
            if (pattern[i].fixed())
                check_fixed(tensor, pattern, pattern[i], tensor.shape[i]);
            else
                take(t, pattern[i], tensor.shape[i]);
        }
    }

    void check_fixed(const KnownShape &tensor, const Pattern &pattern, const Dim &dim, int64_t size) const
    {
        if (dim.fixed_size.value == size)
            return;
        const std::string has = has_shape(tensor) + "; expected " + pattern_text(pattern);
        if (dim.fixed_size.label.empty())
            refuse(where_, has, remedy(dim.text, "Reshape it"));
        refuse(where_, has + " with " + dim.fixed_size.label + " = " + dim.text,
               remedy(dim.fixed_size.label, "Change the layer in front or the attributes"));
    }

    void take(size_t t, const Dim &dim, int64_t size)
    {
        const Dim::Scaled base = dim.base(size);
        const Base *before = find(dim.name);
        if (base.whole && before && before->size == base.value)
            return;
        if (base.whole && !before) {
            bases_.push_back({dim.name, base.value, &tensors_[t]});
            return;
        }
        if (!before || before->source == &tensors_[t])
            refuse(where_, has_shape(tensors_[t]) + "; expected " + pattern_text(declared_.patterns[t]) + " with " +
                   dim.text, "Reshape it");
        contradict(t, *before->source);
    }

    // Refuses a tensor whose shape is not the one that the others ask for.
    [[noreturn]] void contradict(size_t t, const KnownShape &source) const
    {
        std::vector<KnownShape> others = tensors_;
        others[t].has_ndim = false;
        const Shapes without = {declared_.patterns, {}, {}, {}};
        const Shape sizes = Solver(where_, without, others).solve()[t];
        Pattern expected = declared_.patterns[t];
        for (size_t i = 0; i < sizes.size(); ++i)
            if (sizes[i] != UNKNOWN)
                expected[i] = fixed(where_, sizes[i]);
        refuse(where_, has_shape(tensors_[t]) + "; expected " + pattern_text(expected) + " to match " + source.name +
               " of shape " + shape_text(source.shape), std::string("Reshape ") + tensors_[t].name);
    }

    // Refuses a dimension that does not divide.
    void check_value(const Dim &dim) const
    {
        const Base *base = find(dim.name);   // a fixed size has none
        if (!base)
            return;
        const Dim::Scaled value = dim.value(base->size);
        if (!value.whole)
            refuse(where_, has_shape(*base->source) + "; " + dim.name + " " + base->size.text() +
                   " is not divisible by " + dim.div.text(),
                   remedy(dim.name, "Pad the input or choose another " + dim.div.attribute()));
    }

    void check_count(const Count &count) const
    {
        const Base *base = find(count.dimension);
        if (!base || count.numbers < 2 || base->size == count.numbers)
            return;
        refuse(where_, std::string(count.attribute) + " has " + std::to_string(count.numbers) + " numbers; expected " +
               base->size.text() + ", one for each of the " + count.dimension,
               std::string("Pass another ") + count.attribute);
    }

    std::string described(size_t t) const
    {
        return std::string(tensors_[t].name) + " " + pattern_text(declared_.patterns[t]);
    }

    // Returns what the user can do about a dimension or a fixed size.
    std::string remedy(const std::string &name, const std::string &usual) const
    {
        for (const auto &own : declared_.remedies)
            if (name == own.first)
                return own.second;
        return usual;
    }

    // Returns the size of a tensor's dimension. Refuses a size that no tensor can have.
    int64_t size_of(size_t t, const Dim &dim) const
    {
        const Base *base = find(dim.name);
        if (!dim.fixed() && !base)
            return UNKNOWN;
        const Wide size = base ? dim.value(base->size).value : dim.fixed_size.value;
        if (size > largest_size)
            refuse(where_, described(t) + " has a size above " + std::to_string(largest_size),
                   "Choose smaller attributes");
        return size.narrow();
    }

    const char *where_;
    const Shapes &declared_;
    const std::vector<KnownShape> &tensors_;
    std::vector<Base> bases_;
};

inline std::vector<Shape> solve(const char *where, const Shapes &declared, const std::vector<KnownShape> &tensors)
{
    return Solver(where, declared, tensors).solve();
}

}  // namespace gluonops
