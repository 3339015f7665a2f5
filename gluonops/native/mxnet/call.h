// What the adapter in a kernel.cc gets of a call: the tensors by name, typed attributes, and memory to work in. The
// structs that hold them are generated from the operator's contract; the types they are made of stand here.
#ifndef GLUONOPS_NATIVE_CALL_H_
#define GLUONOPS_NATIVE_CALL_H_

#include <stdint.h>

#include <memory>
#include <optional>
#include <vector>

namespace gluonops {

// A tensor. Without an address where the pass may not read it, as the contract says: then it has a shape alone.
struct View {
    void *data = nullptr;
    int type = -1;
    const std::vector<int64_t> *sizes = nullptr;

    const std::vector<int64_t> &shape() const { return *sizes; }
    int64_t size() const
    {
        int64_t items = 1;
        for (const int64_t length : *sizes)
            items *= length;
        return items;
    }
};

// An attribute that is an integer or a tuple of integers; an integer is values[0].
struct Integers {
    bool is_tuple;
    std::vector<int64_t> values;
};

// Memory that lasts as long as the call.
class Workspace {
 public:
    // `count` objects, all of them zero.
    template <typename T>
    T *zeros(int64_t count)
    {
        const auto block = std::make_shared<std::vector<T>>(size_t(count));
        blocks_.push_back(block);
        return block->data();
    }

 private:
    std::vector<std::shared_ptr<void>> blocks_;
};

}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_CALL_H_
