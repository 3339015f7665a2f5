// Losses of a sigmoid on the CPU, element by element. Bytes moved: forward three times the data's, backward four times.
#pragma once

#include "../../native/kernel.h"

namespace gluonops::GLUONOPS_ISA {

#include "formulas.h"

// A tensor as lines of elements that follow each other; only the last one may be shorter.
struct Lines {
    int64_t length, size;

    GLUONOPS_INLINE int64_t count() const { return length ? (size + length - 1) / length : 0; }
};

const int64_t SIGMOID_LINE = 4096;   // elements, where nothing but the number of threads asks for lines

// Writes term(line, first, i, mask) to the i-th element of each line, whose first element is `first` in the tensor.
template <typename T, typename Term>
void write_lines(const Lines &lines, int64_t tensors, T *result, const Term &term)
{
    const bool streaming = streams<T>(lines.size) && lines.length * int64_t(sizeof(T)) >= 512;
    parallel_for_each(lines.count(), tensors * lines.length * int64_t(sizeof(T)), [=](int64_t line) GLUONOPS_LAMBDA {
        const int64_t first = line * lines.length, left = lines.size - first;
        const int64_t items = left < lines.length ? left : lines.length;
        write_row(result + first, items, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return term(line, first, i, mask);
        });
    });
}

// The loss or its gradient: formula(x, y, line, i, mask), times the head gradient in backward.
template <bool BACKWARD, template <typename> class Args, typename T, typename Formula>
void sigmoid_lines(const Args<T> &args, const Lines &lines, const Formula &formula)
{
    const T *data = args.data, *label = args.label, *output_grad = args.output_grad;
    T *result = BACKWARD ? args.data_grad : args.output;
    const auto term = [=](int64_t line, int64_t first, int64_t i, auto mask) GLUONOPS_LAMBDA {
        const auto x = load(data + first + i, mask), y = load(label + first + i, mask);
        const auto value = formula(x, y, line, i, mask);
        if constexpr (BACKWARD) {
            const auto product = load(output_grad + first + i, mask) * value;
            return value == 0 ? value : product;   // ignored: whatever the head gradient holds
        } else {
            return value;
        }
    };
    write_lines(lines, BACKWARD ? 4 : 3, result, term);
}

}  // namespace gluonops::GLUONOPS_ISA
