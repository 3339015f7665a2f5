// What the declarations of the operators on YOLOv2's map share, as in gluonops/ops/region_decode/contract.py.
#ifndef GLUONOPS_OPS_REGION_OPERATOR_H_
#define GLUONOPS_OPS_REGION_OPERATOR_H_

#include <vector>

#include "../../native/operator.h"
#include "region.h"

namespace gluonops {

struct MapAttrs {
    std::vector<double> anchors;
    int64_t classes;
    bool softmax;

    int64_t count() const { return int64_t(anchors.size() / 2); }
};

struct RegionContract : Contract {
    static MapAttrs map_attrs(const Attributes &given)
    {
        return {given.pairs("anchors", {1.3221, 1.73145, 3.19275, 4.00944, 5.05587, 8.09892, 9.47112, 4.84053, 11.2356,
                                        10.0071}),
                given.integer("classes", 20, 1), given.boolean("softmax", true)};
    }
    static Pattern map_dims(const MapAttrs &attrs)
    {
        return {Dim("batch"), Dim(Size("anchors * (5 + classes)", attrs.count() * (5 + attrs.classes))), Dim("height"),
                Dim("width")};
    }
    static MapSizes map_sizes(const MapAttrs &attrs, const Shape &data)
    {
        return {data[0], attrs.count(), attrs.classes, data[2], data[3], attrs.softmax, attrs.anchors.data()};
    }
};

}  // namespace gluonops

#endif  // GLUONOPS_OPS_REGION_OPERATOR_H_
