// The time that all processes had on the processors that this one may use (/proc/stat), less the time of this one; and
// how many threads want to run.
#include "other_processes.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>

namespace gluonops {
namespace {

typedef std::chrono::steady_clock Clock;
typedef std::chrono::duration<double> Seconds;

// The kernel counts in steps of 10 ms, for each processor and kind of work: in less time they are all that one sees.
const Seconds SHORTEST(0.25);
// A process that began lately would be lost in the average of a longer time.
const Seconds LONGEST(1);
// They keep so many processors busy.
const double BUSY_FROM = 0.25;

// What the system tells of the processors that this process may use.
struct Load {
    bool is_known;
    int processors;
    double seconds;   // how long it has worked since the system began
    int running;      // threads that have a processor or wait for one, on the whole machine
};

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

// Adds a line of /proc/stat to `load`.
void add(const std::string &line, const cpu_set_t &allowed, Load &load)
{
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (name == "procs_running") {
        fields >> load.running;
    } else if (name.size() > 3 && name.compare(0, 3, "cpu") == 0) {   // "cpu" alone is all of them
        const int processor = atoi(name.c_str() + 3);
        if (processor < CPU_SETSIZE && CPU_ISSET(processor, &allowed))
            load.seconds += seconds_of_work(fields);
    }
}

// What /proc/stat tells of the processors in `allowed`.
Load load_of(std::istream &stat, const cpu_set_t &allowed)
{
    Load load = {true, CPU_COUNT(&allowed), 0, 0};
    for (std::string line; std::getline(stat, line);)
        add(line, allowed, load);
    return load;
}

Load load_now()
{
    cpu_set_t allowed;
    std::ifstream stat("/proc/stat");
    if (sched_getaffinity(0, sizeof(allowed), &allowed) || !stat)
        return {};
    return load_of(stat, allowed);
}

double seconds_of_this_process()
{
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return double(time.tv_sec) + double(time.tv_nsec) / 1e9;
}

// What was counted, and when.
struct Count {
    Clock::time_point when;
    Load all;
    double ours;

    static Count now() { return {Clock::now(), load_now(), seconds_of_this_process()}; }
};

// What other processes are at this moment. A loop of ours has a thread for every processor, and one more prepares the
// next operator.
OtherProcesses glance(const Load &all)
{
    if (!all.is_known)
        return UNKNOWN;
    return all.running > all.processors + 1 ? BUSY : QUIET;
}

// What other processes were from one count to another.
OtherProcesses compare(const Count &from, const Count &to)
{
    const Seconds passed = to.when - from.when;
    if (passed > LONGEST || !to.all.is_known)
        return glance(to.all);
    const double theirs = (to.all.seconds - from.all.seconds) - (to.ours - from.ours);
    return theirs > BUSY_FROM * passed.count() ? BUSY : QUIET;
}

}  // namespace

OtherProcesses other_processes()
{
    static thread_local Count last = Count::now();
    static thread_local OtherProcesses answer = glance(last.all);
    if (Clock::now() - last.when < SHORTEST)
        return answer;
    const Count now = Count::now();
    answer = compare(last, now);
    last = now;
    return answer;
}

}  // namespace gluonops
