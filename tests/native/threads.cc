// The pool of threads under ThreadSanitizer (tests/native/thread_sanitize.sh): loops from several threads at once,
// loops within loops, and the number of threads changed meanwhile. Each item of a loop is written without an atomic, so
// an item that two threads compute is a race. Results are compared, too.
//
// With the argument "race" the items of a loop write one variable: the sanitizer must report it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "native/parallel.h"
#include "native/pool.cc"

using namespace gluonops;
using namespace gluonops::GLUONOPS_ISA;

namespace {

const int64_t MANY_BYTES = 1 << 20;   // An item has so many: every loop is worth helpers.
const int CALLERS = 3;
const int ROUNDS = 300;

void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "threads: %s\n", what);
        exit(1);
    }
}

std::atomic<int> helped{0};   // chunks that helpers have computed

// Each chunk sleeps, so that the helpers come in before the caller has computed all.
void fill(std::vector<int64_t> *items, int64_t value)
{
    const std::thread::id caller = std::this_thread::get_id();
    parallel_for(int64_t(items->size()), MANY_BYTES, [=](int64_t begin, int64_t end) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
        for (int64_t i = begin; i < end; ++i)
            (*items)[size_t(i)] = value + i;
        if (std::this_thread::get_id() != caller)
            ++helped;
    });
}

void check(const std::vector<int64_t> &items, int64_t value)
{
    for (size_t i = 0; i < items.size(); ++i)
        require(items[i] == value + int64_t(i), "an item was not computed, or by the wrong loop");
}

// Too little work for a helper; it wakes one all the same.
void small_loop()
{
    parallel_for(1, 1, [](int64_t, int64_t) {});
}

// What the caller reads after a loop, the helpers have written; what they read, the caller has.
void loops_after_each_other(int caller)
{
    for (int round = 0; round < ROUNDS; ++round) {
        std::vector<int64_t> items(size_t(2 + round % 37));
        const int64_t value = caller * 1000000 + round * 1000;
        fill(&items, value);
        check(items, value);
        if (round % 50 == 49)   // the helpers sleep meanwhile
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
        if (round % 25 == 24)
            small_loop();
    }
}

// The inner loop runs in the thread that computes the item of the outer one, or it takes helpers that are free.
void loops_in_loops()
{
    for (int round = 0; round < ROUNDS / 10; ++round) {
        std::vector<std::vector<int64_t>> rows(8, std::vector<int64_t>(9));
        parallel_for(int64_t(rows.size()), MANY_BYTES, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i)
                fill(&rows[size_t(i)], i);
        });
        for (size_t i = 0; i < rows.size(); ++i)
            check(rows[i], int64_t(i));
    }
}

void changing_numbers()
{
    for (int round = 0; round < ROUNDS; ++round) {
        gluonops_set_threads(1 + round % 4);
        std::this_thread::yield();
    }
    gluonops_set_threads(4);
}

void race()
{
    int64_t last = 0;
    for (int round = 0; round < ROUNDS; ++round)
        parallel_for(64, MANY_BYTES, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i)
                last = i;
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        });
    printf("%d\n", int(last));
}

}  // namespace

int main(int count, char **arguments)
{
    gluonops_set_threads(4);
    if (count > 1 && !strcmp(arguments[1], "race")) {
        race();
        return 0;
    }
    std::vector<std::thread> threads;
    for (int caller = 0; caller < CALLERS; ++caller)
        threads.emplace_back(loops_after_each_other, caller);
    threads.emplace_back(loops_in_loops);
    threads.emplace_back(changing_numbers);
    for (std::thread &thread : threads)
        thread.join();
    require(helped > 0, "no helper has computed anything");
    puts("fine");
    return 0;
}
