// What every kernel.cc stands on. Kernels take raw pointers and sizes, so they run without MXNet too.
#ifndef GLUONOPS_NATIVE_KERNEL_H_
#define GLUONOPS_NATIVE_KERNEL_H_

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "parallel.h"
#include "simd.h"
#include "target.h"

namespace gluonops {

// MXNet's numbers of the types.
enum Type { FLOAT32, FLOAT64, FLOAT16, UINT8, INT32, INT8, INT64 };

GLUONOPS_INLINE int size_of(int type)
{
    switch (type) {
    case FLOAT64: case INT64: return 8;
    case FLOAT16: return 2;
    case UINT8: case INT8: return 1;
    default: return 4;
    }
}

// Outputs from here on are written past the caches: they would not stay there, and would first be read.
const int64_t PAST_CACHE_BYTES = 24 << 20;

const int64_t NO_CLASS = -1, IGNORED = -2;

// Class indices and the value among them that marks rows to ignore.
struct Labels {
    const void *values;
    int type;
    bool ignores;
    int64_t ignore;
};

namespace GLUONOPS_TARGET {

GLUONOPS_INLINE double label_value(const Labels &labels, int64_t row)
{
    switch (labels.type) {
    case FLOAT32: return static_cast<const float *>(labels.values)[row];
    case FLOAT64: return static_cast<const double *>(labels.values)[row];
    case FLOAT16: return double(widen(static_cast<const Half *>(labels.values)[row]));
    case UINT8: return static_cast<const uint8_t *>(labels.values)[row];
    case INT32: return static_cast<const int32_t *>(labels.values)[row];
    case INT8: return static_cast<const int8_t *>(labels.values)[row];
    default: return double(static_cast<const int64_t *>(labels.values)[row]);
    }
}

// The class that a row's label names: 0 to classes - 1, NO_CLASS or IGNORED.
GLUONOPS_INLINE int64_t class_of(const Labels &labels, int64_t row, int64_t classes)
{
    const double value = label_value(labels, row);   // holds every class exactly
    if (labels.ignores && value == double(labels.ignore))
        return IGNORED;
    if (!(value >= 0 && value < double(classes)))    // or NaN
        return NO_CLASS;
    const int64_t whole = int64_t(value);
    return double(whole) == value ? whole : NO_CLASS;
}

// bytes from one place to another, past the caches where that pays.
GLUONOPS_INLINE void copy_bytes(char *to, const char *from, int64_t bytes, bool past_cache)
{
#if defined(__x86_64__)
    if (past_cache && bytes >= 256) {
        const int64_t head = -reinterpret_cast<intptr_t>(to) & 63;
        memcpy(to, from, size_t(head));
        int64_t i = head;
        for (; i + 64 <= bytes; i += 64)
            for (int part = 0; part < 64; part += WIDTH) {
                Floats v;
                memcpy(&v, from + i + part, WIDTH);
                stream(reinterpret_cast<float *>(to + i + part), v);
            }
        memcpy(to + i, from + i, size_t(bytes - i));
        return;
    }
#endif
    memcpy(to, from, size_t(bytes));
}

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_KERNEL_H_
