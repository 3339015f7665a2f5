// The time that all processes had on the processors that this one may use (/proc/stat), less the time of this one.
#include "neighbours.h"

#include <time.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#ifdef __linux__
#include <sched.h>
#include <unistd.h>
#endif

namespace gluonops {
namespace {

typedef std::chrono::steady_clock Clock;
typedef std::chrono::duration<double> Seconds;

// The kernel counts in steps of 10 ms, for each processor and kind of work: in less time they are all that one sees.
const Seconds SHORTEST(0.25);
// A process that began lately would be lost in the average of a longer time.
const Seconds LONGEST(1);
// In processors.
const double BUSY_FROM = 0.25;

#ifdef __linux__
// Seconds of work on one processor, from its line of /proc/stat after the name: user, nice, system, idle, waiting for
// input and output, interrupts, soft interrupts, and what the hypervisor took.
double seconds_of_work(std::istringstream &fields)
{
    static const double ticks_per_second = double(sysconf(_SC_CLK_TCK));
    const int idle = 3, waiting = 4, kinds = 8;
    double ticks = 0, value;
    for (int kind = 0; kind < kinds && fields >> value; ++kind)
        if (kind != idle && kind != waiting)
            ticks += value;
    return ticks / ticks_per_second;
}

// Seconds of work on the processors in `allowed`, from the text of /proc/stat.
double seconds_of_work(std::istream &stat, const cpu_set_t &allowed)
{
    double seconds = 0;
    for (std::string line; std::getline(stat, line) && line.compare(0, 3, "cpu") == 0;) {
        std::istringstream fields(line.substr(3));
        int processor;
        const bool is_total = line.compare(3, 1, " ") == 0;
        if (!is_total && fields >> processor && processor < CPU_SETSIZE && CPU_ISSET(processor, &allowed))
            seconds += seconds_of_work(fields);
    }
    return seconds;
}

// Seconds of work on the processors that this process may use; negative where the system does not tell.
double seconds_of_all()
{
    cpu_set_t allowed;
    std::ifstream stat("/proc/stat");
    if (sched_getaffinity(0, sizeof(allowed), &allowed) || !stat)
        return -1;
    return seconds_of_work(stat, allowed);
}
#else
double seconds_of_all() { return -1; }
#endif

double seconds_of_this_process()
{
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return double(time.tv_sec) + double(time.tv_nsec) / 1e9;
}

// What was counted, and when.
struct Count {
    Clock::time_point when;
    double all, ours;

    static Count now() { return {Clock::now(), seconds_of_all(), seconds_of_this_process()}; }
};

// What other processes were from one count to another.
Neighbours compare(const Count &from, const Count &to)
{
    const Seconds passed = to.when - from.when;
    if (passed > LONGEST || to.all < 0)
        return UNKNOWN;
    const double theirs = (to.all - from.all) - (to.ours - from.ours);
    return theirs > BUSY_FROM * passed.count() ? BUSY : QUIET;
}

}  // namespace

Neighbours neighbours()
{
    static thread_local Count last = Count::now();
    static thread_local Neighbours answer = UNKNOWN;
    if (Clock::now() - last.when < SHORTEST)
        return answer;
    const Count now = Count::now();
    answer = compare(last, now);
    last = now;
    return answer;
}

}  // namespace gluonops
