// How much of the processors other processes take.
#pragma once

namespace gluonops {

enum OtherProcesses { UNKNOWN, QUIET, BUSY };

// Busy are other processes that took more than a quarter of one processor lately: in a quarter of a second to a second
// that ended less than a quarter ago. If the last question is longer ago, they are busy if more threads want to run at
// this moment than this process has for a loop. UNKNOWN is what a system says that counts neither. The answer is the
// calling thread's own.
OtherProcesses other_processes();

}  // namespace gluonops
