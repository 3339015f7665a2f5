// MXNet's BatchNorm on a machine that other processes use.
//
// Inside oneDNN's BatchNorm the threads wait for each other by spinning, several times in a call. If another process has
// the processor of one, the others spin until they are stopped themselves: a layer of 0.3 ms then takes 30. No setting of
// OpenMP's changes that wait. So when a call has taken far too long, the next ones run in the calling thread alone, for a
// while. One thread takes about twice the time of two, and waits for nobody.
#ifndef GLUONOPS_NATIVE_BATCH_NORM_H_
#define GLUONOPS_NATIVE_BATCH_NORM_H_

#include <stdint.h>

namespace gluonops {

// Watches the calls of MXNet's BatchNorm and of its gradient from now on. Returns whether that is possible: find_mxnet has
// to have succeeded.
bool watch_batch_norm();

// Notes that a call with several threads took so long for data of so many bytes. Returns for how many milliseconds from
// now on the calls run alone: 0 if that was no longer than it may take.
int64_t note_batch_norm(int64_t bytes, int64_t microseconds);

// How many calls have run alone.
int64_t batch_norms_alone();

}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_BATCH_NORM_H_
