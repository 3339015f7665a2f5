// Inference of types: every tensor's type from those of the inputs. The type variables of an operator are generated
// from its contract.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "../kernel.h"
#include "refusal.h"

namespace gluonops {

// A tensor's name and type variable: T the data's, A what T accumulates in, L the label's.
struct Tensor {
    const char *name;
    char variable;
};
typedef std::vector<Tensor> Tensors;

// The types that a type variable may take.
struct TypeVariable {
    char name;
    std::vector<int> types;
};
typedef std::vector<TypeVariable> TypeVariables;

inline const char *type_name(int type)
{
    static const char *const names[] = {"float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool",
                                        "int16", "uint16", "uint32", "uint64", "bfloat16"};
    return type >= 0 && type < int(sizeof names / sizeof *names) ? names[type] : "unknown";
}

// Returns every tensor's type from those of the inputs, or -1 if it does not follow. A label without a type takes that
// of the data. This is the work of Op.infer_type in gluonops/contract/op.py.
inline std::vector<int> inferred_types(const char *where, const TypeVariables &variables, const Tensors &tensors,
                                       const std::vector<int> &inputs)
{
    struct Bound {
        int type = -1;
        const char *source = nullptr;
    };
    std::vector<Bound> bounds(variables.size());
    const auto number_of = [&](char name) {
        size_t i = 0;
        while (i < variables.size() && variables[i].name != name)
            ++i;
        return i;
    };
    for (size_t i = 0; i < inputs.size(); ++i) {
        const Tensor &tensor = tensors[i];
        const int type = inputs[i];
        const size_t variable = number_of(tensor.variable);
        if (type == -1 || variable == variables.size())
            continue;
        const std::vector<int> &allowed = variables[variable].types;
        const auto has = [&] { return std::string(tensor.name) + " has dtype " + type_name(type) + "; expected "; };
        if (std::find(allowed.begin(), allowed.end(), type) == allowed.end()) {
            const char *other = type_name(allowed[std::min(size_t(1), allowed.size() - 1)]);
            refuse(where, has() + listed(allowed, type_name),
                   std::string("Cast it, for instance ") + tensor.name + ".astype('" + other + "')");
        }
        Bound &bound = bounds[variable];
        if (bound.type == -1)
            bound = {type, tensor.name};
        else if (bound.type != type)
            refuse(where, has() + type_name(bound.type) + ", the dtype of " + bound.source,
                   std::string("Cast it with ") + tensor.name + ".astype('" + type_name(bound.type) + "')");
    }
    const size_t data = number_of('T'), label = number_of('L');
    if (label < bounds.size() && bounds[label].type == -1)
        bounds[label].type = bounds[data].type;
    std::vector<int> types;
    for (const Tensor &tensor : tensors) {
        const bool accumulates = tensor.variable == 'A';
        const int type = bounds[accumulates ? data : number_of(tensor.variable)].type;
        types.push_back(accumulates && type == FLOAT16 ? int(FLOAT32) : type);
    }
    return types;
}

}  // namespace gluonops
