// Prints what neighbours.cc makes of a /proc/stat, and of counts; see test_neighbours.py.
#include <stdio.h>

#include "native/neighbours.cc"

using namespace gluonops;

// A count of so many seconds after the first one.
Count after(double seconds, double all, double ours)
{
    const auto passed = std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
    return {Clock::time_point() + passed, all, ours};
}

int main()
{
    // Processors 0, 1 and 11. A field more or less is no matter: old systems have fewer, and newer ones those of guests.
    std::istringstream stat("cpu  999 0 0 0\ncpu0 100 20 30 4000 500 6 7 80 900\ncpu1 5 0 0 0 0 0 0 0\n"
                            "cpu11 1000 0 0 7\nintr 8\ncpu2 1 1 1 1\n");
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    CPU_SET(0, &allowed);
    CPU_SET(11, &allowed);
    printf("%g\n", seconds_of_work(stat, allowed) * double(sysconf(_SC_CLK_TCK)));

    const Count first = after(0, 10, 4);
    printf("%d", compare(first, after(0.5, 10.9, 4.8)) == QUIET);    // they had 0.1 of 0.5 s
    printf("%d", compare(first, after(0.5, 10.9, 4.75)) == BUSY);    // 0.15
    printf("%d", compare(first, after(0.5, 10, 4.9)) == QUIET);      // ours are counted finer than all
    printf("%d", compare(first, after(1.5, 10, 4)) == UNKNOWN);      // too long ago
    printf("%d\n", compare(first, after(0.5, -1, 4)) == UNKNOWN);
    printf("%d\n", neighbours() == UNKNOWN);
}
