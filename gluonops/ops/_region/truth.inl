// C++ includes this text inside its namespace, for each operator that has such memory.
#ifndef GLUONOPS_OPS_REGION_TRUTH_INL_
#define GLUONOPS_OPS_REGION_TRUTH_INL_

// A ground-truth box, and the anchor and cell that it is assigned to.
struct MatchedBox {
    double x, y, w, h;
    int64_t class_id, anchor, cell;
};

#endif  // GLUONOPS_OPS_REGION_TRUTH_INL_
