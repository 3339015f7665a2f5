// Launches kernels on a CPU, for tests.
//
// Every thread of a block is a fiber. They run one at a time, picked at random (by a seed) whenever one waits, so that
// what happens between two barriers happens in any order; mostly one warp, drawn anew at every barrier, lags behind all
// others, which is how a missing barrier shows. A barrier or a shuffle that some of its threads never reach is reported
// with its line, a launch that goes on for ever is ended, and whatever the compiler's checks find (-fsanitize, with the
// handlers below) is reported: an index outside an array, a misaligned access, an overflow. Tensors are copied between
// guards, shared memory begins as NaN.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <mutex>
#include <string>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "fiber.h"
#include "emulator.h"   // last, as its macros are words that other headers use

namespace emulator {

enum { MAX_THREADS = 1024, SHARED_BYTES = 48 * 1024, GUARD = 256, ALIGNMENT = 256, NOBODY = -1 };
const uint64_t SWITCH = 64;   // steps: a switch between threads takes as long as so many branches
std::string text(const Place &place) { return std::string(place.file) + ":" + std::to_string(place.line); }

enum State { READY, AT_BARRIER, AT_SHUFFLE, RETURNED };

struct Fiber {
    Context context;
    dim3 thread;
    int index;
    State state;
    Place place;        // where the barrier or shuffle is that it waits at
    uint64_t value;     // what it brings to a shuffle, and afterwards what it takes away
    int source;         // the lane that it takes from
};

struct Meeting {        // The lanes of a mask meet in a shuffle.
    unsigned mask, arrived;
    Place place;
};

struct Rules {           // as cuda_emulator.py declares them
    uint64_t seed;
    uint64_t most_steps;   // see count_steps
    int64_t left_out;      // the number of a barrier at which no thread waits, or NOBODY
};

struct Launch {
    std::mutex one_at_a_time;
    Fiber fibers[MAX_THREADS];
    std::vector<char *> stacks;
    Context scheduler;
    int threads, at_barrier, returned;
    int lagging;                          // the warp that runs when no other can, or NOBODY
    std::vector<Fiber *> ready, behind;   // what can run: of the other warps, and of the one that lags
    std::vector<Meeting> meetings[MAX_THREADS / WARP];
    std::vector<char *> shared;   // by site
    size_t shared_bytes;
    uint64_t random, steps;
    Rules rules;
    std::string error;
    void (*run)(void **);
    void **arguments;
};
static Launch launch;
Current current;

static Fiber &running() { return launch.fibers[current.index]; }

unsigned draw(unsigned below)
{
    launch.random ^= launch.random << 13;
    launch.random ^= launch.random >> 7;
    launch.random ^= launch.random << 17;
    return unsigned((launch.random >> 32) * below >> 32);
}

void to_scheduler() { switch_context(running().context, launch.scheduler); }

// Ends the launch: no fiber runs again.
[[noreturn]] void fail(const std::string &what)
{
    const dim3 &t = current.thread, &b = current.block_index;
    char where[128];
    snprintf(where, sizeof where, " (thread %u,%u,%u of block %u,%u,%u)", t.x, t.y, t.z, b.x, b.y, b.z);
    if (launch.error.empty())
        launch.error = what + where;
    for (;;)
        to_scheduler();
}

// Steps are counted, and not seconds, so that a busy machine makes no difference.
void count_steps(uint64_t steps)
{
    launch.steps += steps;
    if (launch.steps > launch.rules.most_steps)
        fail("the launch does not end: " + std::to_string(launch.rules.most_steps) + " steps were not enough");
}

void wait()
{
    count_steps(SWITCH);
    to_scheduler();
}

void release(Fiber &fiber)
{
    fiber.state = READY;
    (fiber.index / WARP == launch.lagging ? launch.behind : launch.ready).push_back(&fiber);
}

// All threads of the block run (again): those of one warp later than all others, or in any order.
void release_block()
{
    const int warps = (launch.threads + WARP - 1) / WARP, drawn = int(draw(unsigned(warps + 1)));
    launch.lagging = drawn < warps ? drawn : NOBODY;
    for (int i = 0; i < launch.threads; ++i)
        release(launch.fibers[i]);
}

Fiber &next_fiber()
{
    std::vector<Fiber *> &fibers = launch.ready.empty() ? launch.behind : launch.ready;
    std::swap(fibers[draw(unsigned(fibers.size()))], fibers.back());
    Fiber &next = *fibers.back();
    fibers.pop_back();
    return next;
}

// -- barriers and shuffles --------------------------------------------------------------------------------------------
void barrier(Place place, int number)
{
    if (number == launch.rules.left_out)
        return;
    Fiber &me = running();
    me.state = AT_BARRIER;
    me.place = place;
    if (++launch.at_barrier == launch.threads) {
        for (int i = 0; i < launch.threads; ++i)
            if (launch.fibers[i].place != place)
                fail("threads of a block meet at two barriers, " + text(place) + " and " +
                     text(launch.fibers[i].place));
        launch.at_barrier = 0;
        release_block();
    }
    wait();
}

uint64_t meet(Place place, unsigned mask, uint64_t value, int source)
{
    Fiber &me = running();
    const int lane = me.index % WARP, first = me.index - lane;
    std::vector<Meeting> &meetings = launch.meetings[me.index / WARP];
    if (!(mask >> lane & 1))
        fail("a shuffle whose mask leaves out the calling lane, " + text(place));
    if (!(mask >> source & 1))
        fail("a shuffle takes from lane " + std::to_string(source) + ", which its mask leaves out, " + text(place));
    Meeting *meeting = 0;
    for (Meeting &other : meetings)
        if (other.mask == mask)
            meeting = &other;
    if (!meeting) {
        meetings.push_back(Meeting{mask, 0, place});
        meeting = &meetings.back();
    }
    if (meeting->place != place)
        fail("lanes of a warp meet at two shuffles, " + text(place) + " and " + text(meeting->place));
    me.state = AT_SHUFFLE;
    me.place = place;
    me.value = value;
    me.source = source;
    meeting->arrived |= 1u << lane;
    if (meeting->arrived == mask) {
        uint64_t values[WARP];
        meetings.erase(meetings.begin() + (meeting - meetings.data()));
        for (int i = 0; i < WARP; ++i)
            if (mask >> i & 1)
                values[i] = launch.fibers[first + i].value;
        for (int i = 0; i < WARP; ++i)
            if (mask >> i & 1) {
                launch.fibers[first + i].value = values[launch.fibers[first + i].source];
                release(launch.fibers[first + i]);
            }
    }
    wait();
    return me.value;
}

// -- shared memory: a piece of the heap, which every block finds full of NaN ------------------------------------------
int new_site()
{
    static int sites;
    return sites++;
}

void *shared_memory(int site, size_t bytes)
{
    if (launch.shared.size() <= size_t(site))
        launch.shared.resize(site + 1);
    if (!launch.shared[site]) {
        launch.shared_bytes += bytes;
        if (launch.shared_bytes > SHARED_BYTES)
            fail("a block has more than 48 KB of shared memory");
        void *memory = 0;
        if (posix_memalign(&memory, ALIGNMENT, bytes))
            fail("no memory");
        launch.shared[site] = (char *)memset(memory, 0xff, bytes);
    }
    return launch.shared[site];
}

// -- a launch ---------------------------------------------------------------------------------------------------------
void fiber_main()
{
    for (;;) {
        launch.run(launch.arguments);
        running().state = RETURNED;
        ++launch.returned;
        to_scheduler();
    }
}

std::string stuck()
{
    std::string what = "threads of a block wait for ever:";
    int counted[RETURNED + 1] = {};
    const Fiber *example[RETURNED + 1] = {};
    for (int i = 0; i < launch.threads; ++i) {
        ++counted[launch.fibers[i].state];
        example[launch.fibers[i].state] = &launch.fibers[i];
    }
    if (counted[AT_BARRIER])
        what += " " + std::to_string(counted[AT_BARRIER]) + " at __syncthreads ("
            + text(example[AT_BARRIER]->place) + ")";
    if (counted[AT_SHUFFLE])
        what += " " + std::to_string(counted[AT_SHUFFLE]) + " at a shuffle (" + text(example[AT_SHUFFLE]->place) + ")";
    return what + ", " + std::to_string(counted[RETURNED]) + " have returned";
}

void run_block()
{
    launch.ready.clear();
    launch.behind.clear();
    launch.at_barrier = launch.returned = 0;
    for (std::vector<Meeting> &meetings : launch.meetings)
        meetings.clear();
    release_block();
    while (launch.error.empty() && launch.returned < launch.threads) {
        if (launch.ready.empty() && launch.behind.empty()) {
            launch.error = stuck();
            break;
        }
        Fiber &next = next_fiber();
        current.thread = next.thread;
        current.index = next.index;
        switch_context(launch.scheduler, next.context);
    }
    for (char *&memory : launch.shared) {
        free(memory);
        memory = 0;
    }
    launch.shared_bytes = 0;
}

void run_grid(void (*run)(void **), void **arguments, dim3 grid, dim3 block, const Rules &rules)
{
    launch.run = run;
    launch.arguments = arguments;
    current.grid = grid;
    current.block = block;
    launch.threads = int(block.x * block.y * block.z);
    launch.rules = rules;
    launch.random = rules.seed * 0x9e3779b97f4a7c15u | 1;
    launch.steps = 0;
    launch.error.clear();
    while (launch.stacks.size() < size_t(launch.threads))
        launch.stacks.push_back((char *)mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (int i = 0; i < launch.threads; ++i) {
        Fiber &fiber = launch.fibers[i];
        fiber.index = i;
        fiber.thread = dim3{i % block.x, i / block.x % block.y, i / block.x / block.y};
        make_context(fiber.context, launch.stacks[i], fiber_main);
    }
    std::vector<unsigned> order(grid.x * grid.y * grid.z);
    for (unsigned i = 0; i < order.size(); ++i)
        order[i] = i;
    for (unsigned i = unsigned(order.size()); i > 1; --i)
        std::swap(order[i - 1], order[draw(i)]);
    for (unsigned i : order) {
        current.block_index = dim3{i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y};
        run_block();
        if (!launch.error.empty())
            return;
    }
}

// -- tensors ----------------------------------------------------------------------------------------------------------
// A tensor as the kernel sees it: a copy, as far off a multiple of 256 bytes as the original, with NaN in front of it
// and behind it. Those have to stay, and so has a tensor that is only read, or asked to be left alone.
class Guarded {
public:
    char *data;

    Guarded(void *original, size_t bytes) : original_((char *)original), bytes_(bytes)
    {
        const size_t front = GUARD + uintptr_t(original) % ALIGNMENT;
#ifdef __SANITIZE_ADDRESS__
        const size_t back = 0;   // the allocator has its own
#else
        const size_t back = GUARD;
#endif
        whole_ = front + bytes + back;
        void *memory = 0;
        if (posix_memalign(&memory, ALIGNMENT, whole_))
            abort();
        memory_ = (char *)memset(memory, 0xff, whole_);
        data = memory_ + front;
        memcpy(data, original, bytes);
#ifdef __SANITIZE_ADDRESS__
        ASAN_POISON_MEMORY_REGION(memory_, front);
#endif
    }
    ~Guarded() { free(memory_); }
    Guarded(const Guarded &) = delete;

    void fill_with_nan() { memset(data, 0xff, bytes_); }
    void give_back() { memcpy(original_, data, bytes_); }
    bool changed() const { return memcmp(original_, data, bytes_) != 0; }
    bool written_around()
    {
#ifdef __SANITIZE_ADDRESS__
        ASAN_UNPOISON_MEMORY_REGION(memory_, whole_);
#endif
        for (const char *p = memory_; p < memory_ + whole_; ++p)
            if ((p < data || p >= data + bytes_) && *p != char(0xff))
                return true;
        return false;
    }

private:
    char *original_, *memory_;
    size_t bytes_, whole_;
};

enum Role { SCALAR, READ, KEPT, WRITTEN, ADDED_TO };

struct Argument {   // as cuda_emulator.py declares it
    void *data;     // a tensor's elements, or a scalar's value
    uint64_t bytes;
    int64_t role;
};

const Kernel &find(const char *name)
{
    for (int i = 0; i < kernel_count; ++i)
        if (!strcmp(kernels[i].name, name))
            return kernels[i];
    abort();
}

std::string launch_kernel(const Kernel &kernel, const Argument *arguments, int count, const char *const *names,
                                 dim3 grid, dim3 block, const Rules &rules)
{
    const std::lock_guard<std::mutex> lock(launch.one_at_a_time);
    std::vector<Guarded *> tensors(count);
    std::vector<void *> values(count);
    for (int i = 0; i < count; ++i) {
        values[i] = arguments[i].data;
        if (arguments[i].role == SCALAR)
            continue;
        tensors[i] = new Guarded(arguments[i].data, arguments[i].bytes);
        if (arguments[i].role == WRITTEN)
            tensors[i]->fill_with_nan();
        values[i] = &tensors[i]->data;
    }
    run_grid(kernel.run, values.data(), grid, block, rules);
    std::string error = launch.error;
    for (int i = 0; i < count; ++i) {
        if (!tensors[i])
            continue;
        if (error.empty() && tensors[i]->written_around())
            error = std::string("writes outside ") + names[i];
        if (arguments[i].role == WRITTEN || arguments[i].role == ADDED_TO)
            tensors[i]->give_back();
        else if (error.empty() && tensors[i]->changed())
            error = std::string("writes ") + names[i] +
                    (arguments[i].role == READ ? ", which its signature calls const" : ", which is to be left alone");
        delete tensors[i];
    }
    return error;
}

}  // namespace emulator

// -- what cuda_emulator.py calls --------------------------------------------------------------------------------------
#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED const char *const *declared(const char *kernel, int *count)
{
    *count = emulator::find(kernel).count;
    return emulator::find(kernel).declared;
}

// The error, or nothing, is written to `error`.
EXPORTED void launch(const char *kernel, const emulator::Argument *arguments, int count, const char *const *names,
                     const unsigned *grid, const unsigned *block, const emulator::Rules *rules, char *error,
                     size_t error_bytes)
{
    const std::string text = emulator::launch_kernel(emulator::find(kernel), arguments, count, names,
                                                     dim3{grid[0], grid[1], grid[2]},
                                                     dim3{block[0], block[1], block[2]}, *rules);
    snprintf(error, error_bytes, "%s", text.c_str());
}

// -- what the compiled kernels call wherever they branch (-fsanitize-coverage=trace-pc) -------------------------------
extern "C" void __sanitizer_cov_trace_pc() { emulator::count_steps(1); }

// -- what the compiler's checks call ----------------------------------------------------------------------------------
struct CheckedPlace {
    const char *file;
    uint32_t line, column;
};
#define CHECK(handler, what)                                                                                    \
    extern "C" void __ubsan_handle_##handler##_abort(CheckedPlace *at, ...) \
    {                                                                                                             \
        emulator::fail(std::string(what) + ", " + at->file + ":" + std::to_string(at->line));                     \
    }
CHECK(type_mismatch_v1, "a misaligned or null pointer")
CHECK(out_of_bounds, "an index outside an array")
CHECK(divrem_overflow, "a division by zero")
CHECK(shift_out_of_bounds, "a shift by too much")
CHECK(float_cast_overflow, "a number that does not fit its integer type")
CHECK(add_overflow, "an addition that overflows")
CHECK(sub_overflow, "a subtraction that overflows")
CHECK(mul_overflow, "a multiplication that overflows")
CHECK(negate_overflow, "a negation that overflows")
#undef CHECK

