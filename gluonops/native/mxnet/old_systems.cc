// What the C++ library's headers refer to, and older systems do not have. It stays inside this library.
#include <new>

// Whether a process has one thread, since glibc 2.32. The library counts references as if there were several.
extern "C" {
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
}

namespace std {

// GCC 11's library has it.
[[noreturn]] __attribute__((visibility("hidden"))) void __throw_bad_array_new_length() { throw bad_array_new_length(); }

// GCC 13's library has it, and makes std::cout by itself; before that, libmxnet has made it.
__attribute__((visibility("hidden"))) void ios_base_library_init() {}

}  // namespace std

// GCC 9's library has it; dmlc's headers, which MXNet's include, make streams.
#include <sstream>   // It declares the function above, but not hidden.

#if _GLIBCXX_RELEASE >= 9
template std::ostringstream::basic_ostringstream();
#endif
