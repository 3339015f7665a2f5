// Fibers: each has a stack of its own, and a switch swaps the registers that a function keeps for its caller.
// swapcontext, which makes a system call each time, takes a hundred times as long.
#ifndef GLUONOPS_FIBER_H
#define GLUONOPS_FIBER_H

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace emulator {

#ifdef __SANITIZE_ADDRESS__
enum { STACK = 256 * 1024 };
#else
enum { STACK = 64 * 1024 };
#endif

#ifdef __x86_64__
typedef void *Context;
extern "C" void emulator_switch(Context *from, Context to);
asm(R"(
    .text
    .type emulator_switch, @function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size emulator_switch, . - emulator_switch
)");

void switch_context(Context &from, Context &to) { emulator_switch(&from, to); }

void make_context(Context &context, char *stack, void (*entry)())
{
    void **top = (void **)(stack + STACK) - 2;   // where a call leaves the stack: 8 off a multiple of 16
    top[0] = (void *)entry;
    context = top - 6;
}
#else
typedef ucontext_t Context;
void switch_context(Context &from, Context &to) { swapcontext(&from, &to); }
void make_context(Context &context, char *stack, void (*entry)())
{
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = STACK;
    makecontext(&context, entry, 0);
}
#endif

}  // namespace emulator
#endif
