// How large a tensor can be.
#pragma once

#include <stdint.h>

#include <vector>

namespace gluonops {

const int64_t UNKNOWN = -1;

// A tensor of float64 of so many elements fills the address space.
const int64_t MOST_ELEMENTS = int64_t(1) << 60;

// What MXNet takes as a size: 2**63 - 1 where it is built for large tensors, else 2**31 - 1.
extern int64_t largest_size;

// Whether a tensor with these sizes, of which some may be UNKNOWN, has more elements than any can have.
inline bool too_many_elements(const std::vector<int64_t> &shape)
{
    __int128 elements = 1;
    bool more = false;
    for (const int64_t size : shape) {
        if (size == 0)
            return false;
        elements *= size == UNKNOWN || more ? 1 : size;   // below 2**60 * 2**63
        more = more || elements > MOST_ELEMENTS;
    }
    return more;
}

}  // namespace gluonops
