// Prints what other_processes.cc makes of a /proc/stat, and of counts; see test_other_processes.py.
#include <stdio.h>

#include "native/other_processes.cc"

using namespace gluonops;

const int PROCESSORS = 2;

// A count of so many seconds after the first one.
Count after(double seconds, double all, double ours, int running = 0)
{
    const auto passed = std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
    return {Clock::time_point() + passed, {true, PROCESSORS, all, running}, ours};
}

int main()
{
    // Processors 0, 1 and 11. A field more or less is no matter: old systems have fewer, and newer ones those of
    // guests.
    std::istringstream stat("cpu  999 0 0 0\ncpu0 100 20 30 4000 500 6 7 80 900\ncpu1 5 0 0 0 0 0 0 0\n"
                            "cpu11 1000 0 0 7\nintr 8 9\nprocs_running 5\nprocs_blocked 6\n");
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    CPU_SET(0, &allowed);
    CPU_SET(11, &allowed);
    const Load load = load_of(stat, allowed);
    printf("%g %d %d\n", load.seconds * double(sysconf(_SC_CLK_TCK)), load.processors, load.running);

    const Count first = after(0, 10, 4);
    printf("%d", compare(first, after(0.5, 10.9, 4.8)) == QUIET);    // they had 0.1 of 0.5 s
    printf("%d", compare(first, after(0.5, 10.9, 4.75)) == BUSY);    // 0.15
    printf("%d", compare(first, after(0.5, 10, 4.9)) == QUIET);      // ours are counted finer than all
    printf("%d", compare(first, after(1.5, 99, 4, 3)) == QUIET);     // too long ago: what runs now counts
    printf("%d", compare(first, after(1.5, 10, 4, 4)) == BUSY);
    Count unknown = after(0.5, 10, 4);
    unknown.all.is_known = false;
    printf("%d\n", compare(first, unknown) == UNKNOWN);
    printf("%d\n", other_processes() != UNKNOWN);
}
