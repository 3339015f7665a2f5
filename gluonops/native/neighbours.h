// How much of the processors other processes take.
#ifndef GLUONOPS_NATIVE_NEIGHBOURS_H_
#define GLUONOPS_NATIVE_NEIGHBOURS_H_

namespace gluonops {

enum Neighbours { UNKNOWN, QUIET, BUSY };

// Busy are other processes that took more than a quarter of one processor lately: in a quarter of a second or more that
// ended less than a second ago. The answer is the calling thread's own.
Neighbours neighbours();

}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_NEIGHBOURS_H_
