// Checks of an input's values, as backends/label_checks.py makes them: only where GLUONOPS_CHECK_LABELS asks for them.
// Which inputs are checked, and for what, is generated from the contracts.
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <optional>
#include <string>
#include <vector>

#include "call.h"
#include "../kernel.h"
#include "refusal.h"

namespace gluonops {

inline bool checking_values()
{
    const char *wanted = getenv("GLUONOPS_CHECK_LABELS");
    return wanted && *wanted && strcmp(wanted, "0");
}

// Returns one number of a tensor of any type as a double.
inline double number_at(const View &tensor, int64_t i) { return base::value_at({tensor.data, tensor.type}, i); }

// Returns an element's position in a shape, along each axis.
inline std::vector<int64_t> position_of(int64_t i, const std::vector<int64_t> &shape)
{
    std::vector<int64_t> position(shape.size());
    for (size_t axis = shape.size(); axis-- > 0; i /= shape[axis])
        position[axis] = i % shape[axis];
    return position;
}

inline std::string more_text(int64_t count)
{
    return count > 1 ? " (and " + std::to_string(count - 1) + " more)" : "";
}

// Refuses numbers that are neither whole ones from 0 to size - 1 nor the one to ignore.
inline void check_indices(const char *where, const char *name, const View &tensor, int64_t size,
                          const std::optional<int64_t> &ignore = std::nullopt, const char *ignore_name = nullptr)
{
    int64_t wrong = 0, first = 0;
    for (int64_t i = tensor.size(); i-- > 0;) {
        const double value = number_at(tensor, i);
        const bool is_index = value >= 0 && value < double(size) && value == floor(value);
        if (is_index || (ignore && value == double(*ignore)))
            continue;
        ++wrong;
        first = i;
    }
    if (!wrong)
        return;
    const std::string skip = ignore_name ? std::string(", or name the value to skip with ") + ignore_name : "";
    refuse(where, std::string(name) + "[" + listed(position_of(first, tensor.shape()), integer_text) + "] is " +
           number_text(number_at(tensor, first)) + more_text(wrong) + "; expected a whole number from 0 to " +
           std::to_string(size - 1), "Correct the labels" + skip);
}

// What check_rows says about a row: what the axes in front of it count, what it should be, and what to do.
struct RowTexts {
    std::vector<std::string> axes;
    std::string expected, remedy;
};

// Refuses rows, along the last axis, that are neither valid nor all zeros. valid(row) gets the numbers.
template <typename Valid>
void check_rows(const char *where, const char *name, const View &tensor, const Valid &valid, const RowTexts &texts)
{
    const size_t columns = size_t(tensor.shape().back());
    const int64_t rows = columns ? tensor.size() / int64_t(columns) : 0;
    int64_t wrong = 0, first = 0;
    std::vector<double> row(columns);
    const auto read = [&](int64_t i) {
        bool padding = true;
        for (size_t c = 0; c < columns; ++c) {
            row[c] = number_at(tensor, i * int64_t(columns) + int64_t(c));
            padding = padding && row[c] == 0;
        }
        return padding;
    };
    for (int64_t i = rows; i-- > 0;)
        if (!read(i) && !valid(row.data())) {
            ++wrong;
            first = i;
        }
    if (!wrong)
        return;
    read(first);
    std::vector<int64_t> outer = tensor.shape();
    outer.pop_back();
    const std::vector<int64_t> position = position_of(first, outer);
    std::string location;
    for (size_t axis = outer.size(); axis-- > 0;)
        location += (location.empty() ? "" : " of ") + texts.axes[axis] + " " + std::to_string(position[axis]);
    refuse(where, std::string(name) + "[" + listed(position, integer_text) + "], " + location + ", is (" +
           listed(row, number_text) + ")" + more_text(wrong) + "; expected " + texts.expected, texts.remedy);
}

}  // namespace gluonops
