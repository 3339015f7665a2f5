// Arithmetic with sizes from attributes, which may be any 64-bit numbers.
#ifndef GLUONOPS_NATIVE_SIZES_H_
#define GLUONOPS_NATIVE_SIZES_H_

#include <stdint.h>

#include <vector>

namespace gluonops {

const int64_t UNKNOWN = -1;
const int64_t TOO_LARGE = -2;   // for 64 bits

// A tensor of float64 of so many elements fills the address space.
const int64_t MOST_ELEMENTS = int64_t(1) << 60;

// What MXNet takes as a size: 2**63 - 1 where it is built for large tensors, else 2**31 - 1.
extern int64_t largest_size;

inline int64_t sum(int64_t a, int64_t b)
{
    int64_t result;
    return a == TOO_LARGE || b == TOO_LARGE || __builtin_add_overflow(a, b, &result) ? TOO_LARGE : result;
}

inline int64_t product(int64_t a, int64_t b)
{
    int64_t result;
    return a == TOO_LARGE || b == TOO_LARGE || __builtin_mul_overflow(a, b, &result) ? TOO_LARGE : result;
}

// size * up / down, UNKNOWN where that is not whole.
inline int64_t scaled(int64_t size, int64_t up, int64_t down)
{
    const __int128 all = __int128(size) * up;
    if (all % down)
        return UNKNOWN;
    return all / down > INT64_MAX ? TOO_LARGE : int64_t(all / down);
}

// The number of elements of a tensor with these sizes, of which some may be UNKNOWN: of what is known.
inline int64_t elements(const std::vector<int64_t> &shape)
{
    int64_t result = 1;
    for (const int64_t size : shape) {
        if (size == 0)
            return 0;
        result = size == UNKNOWN ? result : product(result, size);
    }
    return result;
}

}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_SIZES_H_
