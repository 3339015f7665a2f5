// How an operator refuses bad input, and how values are written in its messages: as Python writes them.
#pragma once

#include <stdint.h>
#include <stdio.h>

#include <optional>
#include <string>
#include <vector>

#include "call.h"

namespace gluonops {

// What an operator refuses, in full; carried to MXNet by operator.h.
struct Refusal {
    std::string text;
};

[[noreturn]] inline void refuse(const std::string &where, const std::string &what, const std::string &remedy)
{
    throw Refusal{"gluonops." + where + ": " + what + ". " + remedy + "."};
}

// Items with commas between, as text(item) writes each of them.
template <typename Items, typename Text>
std::string listed(const Items &items, const Text &text)
{
    std::string all;
    for (const auto &item : items)
        all += (all.empty() ? "" : ", ") + std::string(text(item));
    return all;
}

// Returns a tuple as Python writes it.
template <typename Items, typename Text>
std::string tuple_text(const Items &items, const Text &text)
{
    return "(" + listed(items, text) + (items.size() == 1 ? ",)" : ")");
}

inline std::string integer_text(int64_t value) { return std::to_string(value); }

inline std::string shape_text(const std::vector<int64_t> &shape) { return tuple_text(shape, integer_text); }

inline std::string value_text(bool value) { return value ? "True" : "False"; }
inline std::string value_text(int value) { return std::to_string(value); }
inline std::string value_text(int64_t value) { return std::to_string(value); }
inline std::string value_text(const std::optional<int64_t> &value) { return value ? std::to_string(*value) : "None"; }
inline std::string value_text(const Integers &value)
{
    return value.is_tuple ? shape_text(value.values) : std::to_string(value.values[0]);
}

// Returns a number as Python's format code g writes it.
inline std::string number_text(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%g", value);
    return value != value ? "nan" : text;
}

}  // namespace gluonops
