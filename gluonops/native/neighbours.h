// How busy other processes keep the processors.
#ifndef GLUONOPS_NATIVE_NEIGHBOURS_H_
#define GLUONOPS_NATIVE_NEIGHBOURS_H_

namespace gluonops {

// Whether other processes took more than a quarter of one processor lately: in a quarter of a second or more that ended
// less than a second ago. True as well where that is not known. The answer is the calling thread's own.
bool neighbours_are_busy();

}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_NEIGHBOURS_H_
