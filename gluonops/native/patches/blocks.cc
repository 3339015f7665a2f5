// Keeps the memory of large tensors that MXNet frees, for its next ones.
//
// MXNet frees the block of a tensor as soon as the tensor is gone, and glibc gives large blocks back to the system. The
// next operator then waits while the system maps and zeroes the pages of its output. That takes up to ten times as long
// as copying the tensor.
//
// So MXNet's calls of posix_memalign and free are led here. Only MXNet's are: nothing changes for the rest of the
// process. A freed block goes to the end of a list, and the next tensor of about its size gets it. When the blocks in
// the lists exceed a bound, the one that was freed first goes back to the system.
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "../isa.h"

namespace gluonops {
namespace {

// Smaller blocks are left to malloc.
const size_t SMALLEST = 64 * 1024;

const size_t PAGE = 4096;   // the smallest that a system has

// Returns the size of as many of the system's pages as `size` bytes need. On some Arm systems a page has 64 KiB, and
// only whole pages can be unmapped.
size_t whole_pages(size_t size)
{
    static const size_t page = size_t(sysconf(_SC_PAGESIZE));
    return (size + page - 1) / page * page;
}

// A block begins so many times SHIFT bytes behind the start of a page, and the next one once more. Where two tensors
// begin at the same place of a page, a processor takes a load from one for a load of what it has just stored in the
// other, and both want the same lines of the first cache. A kernel that reads one and writes the other then takes up to
// a third longer. free() tells at once that most of what it gets is not a block.
const size_t SHIFT = 256;
const size_t SHIFTS = PAGE / SHIFT;

// Blocks of this size and more get pages of this size if the system has them. They are faster to map.
const size_t LARGE_PAGE = 2 * 1024 * 1024;

// Returns the size of the block for `size` bytes. There are four sizes from one power of two to the next. Pages that
// nobody writes to take no memory, so the difference costs none.
size_t block_size(size_t size)
{
    size_t step = SMALLEST / 4;
    while (8 * step < size)
        step *= 2;
    return (size + step - 1) / step * step;
}

// Returns `size` bytes that begin at a multiple of `alignment`, or null if the system has no more memory.
char *map_aligned(size_t size, size_t alignment)
{
    const size_t mapped = size + alignment - whole_pages(1);
    void *const start = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return nullptr;
    char *const first = static_cast<char *>(start);
    const size_t skipped = (alignment - reinterpret_cast<uintptr_t>(first) % alignment) % alignment;
    char *const block = first + skipped;
    if (skipped)
        munmap(first, skipped);
    if (mapped - skipped > size)
        munmap(block + size, mapped - skipped - size);
    return block;
}

// Whole pages for a block of `size` bytes, wherever it begins in the first one.
char *map_pages(size_t size)
{
    const size_t mapped = whole_pages(size + PAGE);
    if (size < LARGE_PAGE)
        return map_aligned(mapped, whole_pages(1));
    char *const pages = map_aligned(mapped, LARGE_PAGE);
    if (pages)
        madvise(pages, mapped, MADV_HUGEPAGE);
    return pages;
}

void *map_block(size_t size)
{
    static std::atomic<size_t> count{0};
    char *const pages = map_pages(size);
    return pages ? pages + count.fetch_add(1) % SHIFTS * SHIFT : nullptr;
}

void unmap_block(void *block, size_t size)
{
    char *const start = static_cast<char *>(block);
    munmap(start - reinterpret_cast<uintptr_t>(block) % PAGE, whole_pages(size + PAGE));
}

// A lock that a forked process can take although a thread of its parent held it at that moment. A handler of
// pthread_atfork could not do that: MXNet's own handler waits for threads that may need this lock.
class Lock {
public:
    void lock()
    {
        const pid_t process = getpid();
        for (;;) {
            pid_t holder = 0;
            if (holder_.compare_exchange_weak(holder, process))
                return;
            const bool is_parents = holder != 0 && holder != process;
            if (is_parents && holder_.compare_exchange_strong(holder, process)) {
                was_inherited_ = true;
                return;
            }
            std::this_thread::yield();
        }
    }

    void unlock() { holder_.store(0); }

    // Returns whether what the lock guards may be half changed. The thread that holds the lock asks.
    bool was_inherited() const { return was_inherited_; }

private:
    std::atomic<pid_t> holder_{0};
    bool was_inherited_ = false;
};

struct Mapping {
    void *block;
    size_t size;
};

class MemoryBlocks {
public:
    // Returns a block for `size` bytes, or null if it would be too large to keep, or if there is no memory.
    void *take(size_t size)
    {
        std::unique_lock<Lock> lock(lock_);
        if (size > bound_ || lock_.was_inherited())
            return nullptr;
        const size_t rounded = block_size(size);
        if (void *const block = take_kept(rounded))
            return block;
        lock.unlock();
        void *const block = map_block(rounded);
        if (!block) {
            give_to_system(0);   // so that malloc may find some
            return nullptr;
        }
        lock.lock();
        in_use_[block] = rounded;
        return block;
    }

    // Takes a block back. Returns whether it is one of these blocks.
    bool give_back(void *block)
    {
        size_t bound;
        {
            std::lock_guard<Lock> lock(lock_);
            if (lock_.was_inherited())
                return true;   // nobody can tell any more: its memory is lost until the forked process ends
            const auto entry = in_use_.find(block);
            if (entry == in_use_.end())
                return false;
            const size_t size = entry->second;
            in_use_.erase(entry);
            kept_[size].push_back({block, ++freed_});
            kept_bytes_ += size;
            bound = bound_;
        }
        give_to_system(bound);
        return true;
    }

    void set_bound(size_t bytes)
    {
        {
            std::lock_guard<Lock> lock(lock_);
            bound_ = bytes;
        }
        give_to_system(bytes);
    }

    size_t kept_bytes()
    {
        std::lock_guard<Lock> lock(lock_);
        return kept_bytes_;
    }

private:
    struct Kept {
        void *block;
        uint64_t freed;   // how many blocks had been freed by then
    };
    typedef std::map<size_t, std::deque<Kept>> BySize;

    // Takes the block that was freed last, because it may still be in the processor's caches.
    void *take_kept(size_t size)
    {
        std::deque<Kept> &blocks = kept_[size];
        if (blocks.empty())
            return nullptr;
        void *const block = blocks.back().block;
        blocks.pop_back();
        kept_bytes_ -= size;
        in_use_[block] = size;
        return block;
    }

    // Gives the blocks that exceed `bytes` back to the system. Other threads need not wait for it meanwhile.
    void give_to_system(size_t bytes)
    {
        for (;;) {
            const Mapping oldest = take_oldest(bytes);
            if (!oldest.block)
                return;
            unmap_block(oldest.block, oldest.size);
        }
    }

    // Returns the block that was freed first, if more than `bytes` are kept.
    Mapping take_oldest(size_t bytes)
    {
        std::lock_guard<Lock> lock(lock_);
        if (kept_bytes_ <= bytes || lock_.was_inherited())
            return {nullptr, 0};
        const auto oldest = find_oldest();
        const Mapping mapping{oldest->second.front().block, oldest->first};
        oldest->second.pop_front();
        kept_bytes_ -= mapping.size;
        return mapping;
    }

    BySize::iterator find_oldest()
    {
        auto oldest = kept_.end();
        for (auto each = kept_.begin(); each != kept_.end(); ++each)
            if (!each->second.empty() &&
                (oldest == kept_.end() || each->second.front().freed < oldest->second.front().freed))
                oldest = each;
        return oldest;
    }

    Lock lock_;
    size_t bound_ = 0;
    size_t kept_bytes_ = 0;
    uint64_t freed_ = 0;
    BySize kept_;
    std::unordered_map<void *, size_t> in_use_;
};

// The blocks are never destroyed, because MXNet frees tensors until the process ends.
MemoryBlocks &blocks()
{
    static MemoryBlocks *const only = new MemoryBlocks;
    return *only;
}

// What MXNet calls in the place of posix_memalign().
int allocate(void **result, size_t alignment, size_t size)
{
    if (size >= SMALLEST && alignment <= SHIFT) {
        if (void *const block = blocks().take(size)) {
            *result = block;
            return 0;
        }
    }
    return posix_memalign(result, alignment, size);
}

// What MXNet calls in the place of free().
void release(void *block)
{
    const int before = errno;   // free() leaves it alone
    const bool may_be_ours = block && reinterpret_cast<uintptr_t>(block) % SHIFT == 0;
    if (!may_be_ours || !blocks().give_back(block))
        free(block);
    errno = before;
}

// The part of a loaded library that says which functions it takes from others.
class Imports {
public:
    explicit Imports(const link_map *library) : base_(library->l_addr)
    {
        for (const ElfW(Dyn) *entry = library->l_ld; entry->d_tag != DT_NULL; ++entry)
            entries_[entry->d_tag] = entry->d_un.d_val;
    }

    // Returns where the library holds the address of a function that it calls, or null if it does not call the
    // function, or if the address cannot be replaced.
    void **find(const char *function) const
    {
        const auto *const calls = reinterpret_cast<const ElfW(Rela) *>(value_of(DT_JMPREL));
        const auto *const symbols = reinterpret_cast<const ElfW(Sym) *>(value_of(DT_SYMTAB));
        const char *const names = reinterpret_cast<const char *>(value_of(DT_STRTAB));
        if (is_fixed() || !calls || !symbols || !names)
            return nullptr;
        for (size_t i = 0; i < value_of(DT_PLTRELSZ) / sizeof(ElfW(Rela)); ++i) {
            const ElfW(Sym) &symbol = symbols[ELF64_R_SYM(calls[i].r_info)];
            if (!strcmp(names + symbol.st_name, function))
                return reinterpret_cast<void **>(base_ + calls[i].r_offset);
        }
        return nullptr;
    }

private:
    // Returns whether the linker made the addresses read-only.
    bool is_fixed() const
    {
        return entries_.count(DT_BIND_NOW) || value_of(DT_FLAGS) & DF_BIND_NOW || value_of(DT_FLAGS_1) & DF_1_NOW;
    }

    ElfW(Addr) value_of(int64_t tag) const
    {
        const auto entry = entries_.find(tag);
        return entry == entries_.end() ? 0 : entry->second;
    }

    ElfW(Addr) base_;
    std::unordered_map<int64_t, ElfW(Addr)> entries_;   // by their tags
};

// Leads MXNet's calls here. free() comes first: it has to know every block that it may get.
bool take_over(const void *inside)
{
    Dl_info place;
    link_map *library = nullptr;
    if (!dladdr1(inside, &place, reinterpret_cast<void **>(&library), RTLD_DL_LINKMAP) || !library)
        return false;
    const Imports imports(library);
    void **const free_address = imports.find("free");
    void **const allocate_address = imports.find("posix_memalign");
    if (!free_address || !allocate_address)
        return false;
    __atomic_store_n(free_address, reinterpret_cast<void *>(release), __ATOMIC_SEQ_CST);
    __atomic_store_n(allocate_address, reinterpret_cast<void *>(allocate), __ATOMIC_SEQ_CST);
    return true;
}

}  // namespace

// Keeps at most `bytes` of freed blocks from now on, and gives what is above it back to the system. 0 keeps nothing.
// `inside` is an address of any function of MXNet's library. Returns whether MXNet takes its blocks from here.
GLUONOPS_PUBLIC int gluonops_keep_blocks(const void *inside, int64_t bytes)
{
    static const bool taken_over = take_over(inside);
    if (taken_over)
        blocks().set_bound(bytes > 0 ? size_t(bytes) : 0);
    return taken_over;
}

// Returns the number of bytes in the blocks that are kept now.
GLUONOPS_PUBLIC int64_t gluonops_kept_bytes() { return int64_t(blocks().kept_bytes()); }

}  // namespace gluonops
