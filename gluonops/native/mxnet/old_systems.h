// Lets a library that is compiled on a new system run on older ones. Every compilation includes this file.
//
// The linker binds a function of the C library to its newest version, and where that version is missing, the library
// does not load. The versions below are the first ones, and compute the same.
#pragma once

#if defined(__aarch64__)
#define GLUONOPS_FIRST "GLIBC_2.17"
#define GLUONOPS_FIRST_OF_DLADDR1 "GLIBC_2.17"
#else
#define GLUONOPS_FIRST "GLIBC_2.2.5"
#define GLUONOPS_FIRST_OF_DLADDR1 "GLIBC_2.3.3"
#endif

#define GLUONOPS_VERSION_OF(function, version) GLUONOPS_OLDER(function, function, version)
#define GLUONOPS_OLDER(function, older, version) asm(".symver " #function ", " #older "@" version)
// Since glibc 2.29 they do not look at _LIB_VERSION.
GLUONOPS_VERSION_OF(exp, GLUONOPS_FIRST);
GLUONOPS_VERSION_OF(log, GLUONOPS_FIRST);
GLUONOPS_VERSION_OF(pow, GLUONOPS_FIRST);
// Since glibc 2.34 they are in libc.so.6 itself.
GLUONOPS_VERSION_OF(dladdr, GLUONOPS_FIRST);
GLUONOPS_VERSION_OF(dladdr1, GLUONOPS_FIRST_OF_DLADDR1);
GLUONOPS_VERSION_OF(dlopen, GLUONOPS_FIRST);
GLUONOPS_VERSION_OF(dlsym, GLUONOPS_FIRST);
GLUONOPS_VERSION_OF(pthread_mutex_trylock, GLUONOPS_FIRST);
GLUONOPS_VERSION_OF(pthread_once, GLUONOPS_FIRST);
// Since glibc 2.38 they also read binary numbers, under other names.
GLUONOPS_OLDER(__isoc23_sscanf, sscanf, GLUONOPS_FIRST);
GLUONOPS_OLDER(__isoc23_strtol, strtol, GLUONOPS_FIRST);
// std::condition_variable::wait; since GCC 12 it is noexcept.
GLUONOPS_VERSION_OF(_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE, "GLIBCXX_3.4.11");
