// std::functions that the code in MXNet's wheels can call, and calls of std::functions that it has made. Only
// registration.cc includes this file.
#pragma once

#include <stddef.h>
#include <string.h>

#include <functional>

#include "registration.h"

namespace gluonops {
namespace {

// The code that a std::function calls takes its arguments as they are in libstdc++ before GCC 5, and references to them
// since then. The wheels differ: some are built by GCC 4.8. Everything else in these objects is the same.
bool old_functions = false;

struct Parts {   // A std::function has them.
    void *data[2];
    void *manager;
    void *invoker;
};

template <typename Function, typename Invoker>
void set_invoker(Function *function, Invoker *invoker)
{
    static_assert(sizeof(Parts) == sizeof(Function), "another std::function");
    memcpy(reinterpret_cast<char *>(function) + offsetof(Parts, invoker), &invoker, sizeof invoker);
}

// A function of an operator as the std::function that MXNet's registry keeps.
template <auto function>
struct Wrapped;

template <typename Result, typename... Args, Result (*function)(const Registration &, Args...)>
struct Wrapped<function> {
    static Result call_by_value(void *const *data, Args... args)
    {
        return function(*static_cast<const Registration *>(*data), args...);
    }

    static std::function<Result(Args...)> of(const Registration &operation)
    {
        std::function<Result(Args...)> result = [&operation](Args... args) { return function(operation, args...); };
        if (old_functions)
            set_invoker(&result, call_by_value);
        return result;
    }
};

template <typename T>
struct Same {
    typedef T type;
};

// Calls a function that MXNet has made.
template <typename Result, typename... Args>
Result call_mxnet(const std::function<Result(Args...)> &function, typename Same<Args>::type... args)
{
    if (!old_functions)
        return function(args...);
    Parts object;
    memcpy(&object, &function, sizeof object);
    return reinterpret_cast<Result (*)(void *const *, Args...)>(object.invoker)(object.data, args...);
}

}  // namespace
}  // namespace gluonops
