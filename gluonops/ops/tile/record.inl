// How tile repeats its data. C++ and CUDA share this text.
//
// A span is neighbours that are repeated as one block, which is the innermost one. So many copies of a block lie side
// by side, and so many blocks with their copies make up the block of the next loop.
enum { TILE_LOOPS = 8 };   // There are as many counts at most; kernel.cu compares it with the contract.

struct TileLoops {
    int64_t span;        // elements
    int64_t copies;      // how often each element is copied
    int64_t outermost;   // number of the last loop; blocks of it make up the data
    int64_t repeats[TILE_LOOPS];
    int64_t sizes[TILE_LOOPS];

    // Returns where the span of data starts that span number `i` of the output repeats.
    GLUONOPS_INLINE int64_t source_of(int64_t i) const
    {
        int64_t source = 0, stride = span;
        for (int l = 0; l < outermost; ++l) {
            const int64_t block = quotient(i, repeats[l]);
            i = quotient(block, sizes[l]);
            source += (block - i * sizes[l]) * stride;
            stride *= sizes[l];
        }
        return source + quotient(i, repeats[outermost]) * stride;
    }

    // Returns where in the output copy `c` of span number `i` of data starts.
    GLUONOPS_INLINE int64_t copy_of(int64_t i, int64_t c) const
    {
        int64_t copy = 0, stride = span;
        for (int l = 0; l < outermost; ++l) {
            const int64_t outer = quotient(i, sizes[l]), outer_copy = quotient(c, repeats[l]);
            copy += ((i - outer * sizes[l]) * repeats[l] + c - outer_copy * repeats[l]) * stride;
            stride *= sizes[l] * repeats[l];
            i = outer;
            c = outer_copy;
        }
        return copy + (i * repeats[outermost] + c) * stride;
    }
};
