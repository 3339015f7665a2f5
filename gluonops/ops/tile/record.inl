enum { TILE_LOOPS = 8 + 1 };   // a loop for every count that the contract allows, and one in front of them

struct TileLoops {
    int count;   // at least one; the last one is the innermost
    int64_t size[TILE_LOOPS];
    int64_t repeats[TILE_LOOPS];
};
