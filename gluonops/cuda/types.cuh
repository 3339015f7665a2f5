// The types of sizes and labels, and what record.inl needs, in CUDA.

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef int int32_t;
typedef long long int64_t;

// It stands in front of the functions that a family's C++ has as well.
#define GLUONOPS_INLINE __device__ inline
