// Shape inference from one declaration, as gluonops/core/dims.py does it: the shape of every tensor in named
// dimensions, multiplied or divided by sizes that come from attributes.
#ifndef GLUONOPS_NATIVE_DIMS_H_
#define GLUONOPS_NATIVE_DIMS_H_

#include <stdint.h>

#include <string>
#include <vector>

#include "attributes.h"
#include "sizes.h"

namespace gluonops {

// A positive integer from an attribute that remembers what the user calls it; it may be TOO_LARGE. Without a label: no
// size.
struct Size {
    std::string label;
    int64_t value = 1;

    Size() {}
    Size(std::string label, int64_t value) : label(std::move(label)), value(value) {}
    Size operator*(const Size &other) const
    {
        return label.empty() ? other : Size(label + " * " + other.label, product(value, other.value));
    }
    bool is_product() const { return label.find('*') != std::string::npos; }
    std::string text() const { return label + (is_product() ? " = " : " ") + std::to_string(value); }
};

// A named dimension, `height / stride`, or, without a name, a fixed size (with a label: how attributes fix it).
struct Dim {
    std::string name;
    Size mul, div;
    std::string remedy;   // what to do about another size, if that is not the usual

    explicit Dim(std::string name) : name(std::move(name)) {}
    explicit Dim(int64_t fixed) : mul("", fixed) {}
    explicit Dim(const Size &fixed) : mul(fixed) {}
    Dim operator*(const Size &size) const
    {
        Dim dim = *this;
        dim.mul = mul * size;
        return dim;
    }
    Dim operator/(const Size &size) const
    {
        Dim dim = *this;
        dim.div = div * size;
        return dim;
    }
    bool fixed() const { return name.empty(); }
    std::string text() const
    {
        if (fixed())
            return std::to_string(mul.value);
        return name + (mul.label.empty() ? "" : " * " + mul.label) +
               (div.label.empty() ? "" : div.is_product() ? " / (" + div.label + ")" : " / " + div.label);
    }
    // The size here for a size `base` of the bare dimension, and the other way round; UNKNOWN where it does not divide,
    // and possibly TOO_LARGE.
    int64_t value(int64_t base) const { return scaled(base, mul.value, div.value); }
    int64_t base(int64_t size) const { return scaled(size, div.value, mul.value); }
};

typedef std::vector<Dim> Pattern;
typedef std::vector<int64_t> Shape;

// The declared shape of every tensor, inputs first, and dimensions that must come out whole although no tensor has
// them.
struct Shapes {
    std::vector<Pattern> patterns;
    Pattern required;
};

// What is known of a tensor's shape.
struct Known {
    const char *name;
    bool given;
    Shape shape;
};

inline Pattern numbered(int ndim)
{
    Pattern dims;
    for (int i = 0; i < ndim; ++i)
        dims.push_back(Dim("dim" + std::to_string(i)));
    return dims;
}

inline std::string pattern_text(const Pattern &dims)
{
    std::string text = "(";
    for (size_t i = 0; i < dims.size(); ++i)
        text += (i ? ", " : "") + dims[i].text();
    return text + (dims.size() == 1 ? ",)" : ")");
}

inline std::string plural(const char *what, size_t count)
{
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// Refuses what the attributes make of a size where 64 bits do not hold it.
inline void check_attributes(const char *where, const Shapes &declared)
{
    std::vector<Pattern> patterns = declared.patterns;
    patterns.push_back(declared.required);
    for (const Pattern &pattern : patterns)
        for (const Dim &dim : pattern)
            for (const Size *size : {&dim.mul, &dim.div})
                if (size->value == TOO_LARGE)
                    refuse(where, size->label + " is more than 2**63 - 1", "Choose smaller attributes");
}

inline bool too_large(int64_t size) { return size == TOO_LARGE || size > largest_size; }

// Refuses shapes that no tensor has.
inline void check_sizes(const char *where, const Shapes &declared, const std::vector<Known> &tensors,
                        const std::vector<Shape> &shapes)
{
    for (size_t i = 0; i < shapes.size(); ++i) {
        const std::string tensor = tensors[i].name + (" " + pattern_text(declared.patterns[i]));
        if (std::any_of(shapes[i].begin(), shapes[i].end(), too_large))
            refuse(where, tensor + " has a size above " + std::to_string(largest_size), "Choose smaller attributes");
        const int64_t count = elements(shapes[i]);
        if (count == TOO_LARGE || count > MOST_ELEMENTS)
            refuse(where, tensor + " has more than 2**60 elements", "Choose smaller attributes");
    }
}

// A shape for every tensor, UNKNOWN where a size does not follow; refuses what does not fit.
inline std::vector<Shape> solve(const char *where, const Shapes &declared, const std::vector<Known> &tensors)
{
    struct Base {
        const std::string *name;
        int64_t size;
        const Known *source;
    };
    check_attributes(where, declared);
    std::vector<Base> bases;
    const auto find = [&](const Dim &dim) -> const Base * {
        for (const Base &base : bases)
            if (*base.name == dim.name)
                return &base;
        return nullptr;
    };
    const std::vector<Pattern> &patterns = declared.patterns;
    for (size_t t = 0; t < tensors.size(); ++t) {
        if (!tensors[t].given)
            continue;
        const Shape &shape = tensors[t].shape;
        const Pattern &pattern = patterns[t];
        const std::string has = std::string(tensors[t].name) + " has shape " + shape_text(shape);
        if (shape.size() != pattern.size())
            refuse(where, has + "; expected " + plural("dimension", pattern.size()) + " " + pattern_text(pattern),
                   "Reshape it");
        for (size_t i = 0; i < shape.size(); ++i) {
            if (shape[i] == UNKNOWN)
                continue;
            const Dim &dim = pattern[i];
            const int64_t size = dim.fixed() ? shape[i] : dim.base(shape[i]);
            if (too_large(size))
                refuse(where, has + "; " + (dim.fixed() ? "a size" : dim.name) + " is above " +
                       std::to_string(largest_size), "Choose smaller attributes");
            int64_t expected = dim.mul.value;
            const Known *source = nullptr;
            if (!dim.fixed()) {
                const Base *base = find(dim);
                expected = base ? base->size : size;
                source = base ? base->source : &tensors[t];
                if (!base)
                    bases.push_back({&dim.name, size, &tensors[t]});
            }
            if (size != UNKNOWN && size == expected)
                continue;
            const bool labelled = dim.fixed() && !dim.mul.label.empty();
            if (!source || source == &tensors[t])
                refuse(where, has + "; expected " + pattern_text(pattern) + " with " +
                       (labelled ? dim.mul.label + " = " : "") + dim.text(),
                       !labelled ? "Reshape it"
                       : dim.remedy.empty() ? "Change the layer in front or the attributes" : dim.remedy);
            std::vector<Known> others = tensors;
            others[t].given = false;
            Pattern wanted;
            const Shape sizes = solve(where, {patterns, {}}, others)[t];
            for (size_t d = 0; d < sizes.size(); ++d)
                wanted.push_back(sizes[d] == UNKNOWN ? pattern[d] : Dim(sizes[d]));
            refuse(where, has + "; expected " + pattern_text(wanted) + " to match " + source->name + " of shape " +
                   shape_text(source->shape), std::string("Reshape ") + tensors[t].name);
        }
    }
    const auto divides = [&](const Dim &dim) {
        const Base *base = dim.fixed() ? nullptr : find(dim);
        if (!base || dim.value(base->size) != UNKNOWN)
            return;
        const std::string label = dim.div.label.substr(0, dim.div.label.find(' '));
        refuse(where, std::string(base->source->name) + " has shape " + shape_text(base->source->shape) + "; " + dim.name +
               " " + std::to_string(base->size) + " is not divisible by " + dim.div.text(),
               !dim.remedy.empty() ? dim.remedy :
               (dim.name == "channels" ? "Change the number of channels or choose another "
                                       : "Pad the input or choose another ") + label);
    };
    for (const Pattern &pattern : patterns)
        for (const Dim &dim : pattern)
            divides(dim);
    for (const Dim &dim : declared.required)
        divides(dim);
    std::vector<Shape> result;
    for (const Pattern &pattern : patterns) {
        result.emplace_back();
        for (const Dim &dim : pattern) {
            const Base *base = dim.fixed() ? nullptr : find(dim);
            result.back().push_back(dim.fixed() ? dim.mul.value : base ? dim.value(base->size) : UNKNOWN);
        }
    }
    check_sizes(where, declared, tensors, result);
    return result;
}

// The axis counted from the front.
inline int64_t check_axis(const char *where, int64_t axis, int ndim)
{
    if (axis < -ndim || axis >= ndim)
        refuse(where, "axis " + std::to_string(axis) + " is out of range for data of " + plural("dimension", size_t(ndim)),
               "Choose an axis from " + std::to_string(-ndim) + " to " + std::to_string(ndim - 1));
    return axis < 0 ? axis + ndim : axis;
}

// Named dimensions of a tensor whose `axis` holds the classes.
inline Pattern class_dims(int ndim, int64_t axis)
{
    Pattern dims;
    for (int i = 0; i < ndim; ++i)
        dims.push_back(Dim(i == axis ? "classes" : i == 0 ? "batch" : "dim" + std::to_string(i)));
    return dims;
}

// data's dimensions and the label's, which has all but the classes; returns the axis.
inline int64_t label_dims(const char *where, int64_t axis, int ndim, Pattern *data, Pattern *label)
{
    axis = check_axis(where, axis, ndim);
    *data = *label = class_dims(ndim, axis);
    label->erase(label->begin() + axis);
    if (label->empty())
        refuse(where, "data has 1 dimension; expected a batch of rows", "Add a batch axis with expand_dims(axis=0)");
    return axis;
}

}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_DIMS_H_
