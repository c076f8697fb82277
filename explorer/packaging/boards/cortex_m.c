// Starts a self-test on a processor of Arm's M profile in an emulator: vectors, memory, main, exit.
// Files and text go through semihosting (newlib's rdimon.specs).
//
// RUN is the package's run function, which the linker wraps (--wrap): its ticks of SysTick are
// printed at the end. Where the emulator takes a nanosecond for every instruction (-icount shift=0)
// and the clock has 25 MHz, a tick is 40 instructions.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CONTROL (*(volatile uint32_t *)0xE000E010)
#define RELOAD (*(volatile uint32_t *)0xE000E014)
#define CURRENT (*(volatile uint32_t *)0xE000E018)
#define HIGHEST 0xFFFFFFu
#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

int JOIN(__real_, RUN)(const void *model);
int JOIN(__wrap_, RUN)(const void *model);

static uint32_t ticks;  // of the last run
static int is_too_long;

int JOIN(__wrap_, RUN)(const void *model)
{
    RELOAD = HIGHEST;
    CURRENT = 0;
    CONTROL = 5;  // the processor's clock, without interrupts
    const int status = JOIN(__real_, RUN)(model);
    ticks = HIGHEST - CURRENT;
    is_too_long = (CONTROL >> 16) & 1;  // it went through 0
    return status;
}

extern uint32_t stack_top[], data_source[], data_begin[], data_end[], bss_begin[], bss_end[];
extern void initialise_monitor_handles(void);
extern int main(void);

void reset(void);
void fault(void);

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_top, reset, fault, fault, fault, fault, fault,
};

void fault(void)
{
    _Exit(3);
}

void reset(void)
{
    const uint32_t *from = data_source;
    for (uint32_t *to = data_begin; to < data_end;)
        *to++ = *from++;
    for (uint32_t *to = bss_begin; to < bss_end;)
        *to++ = 0;
#if defined(__ARM_FP)
    *(volatile uint32_t *)0xE000ED88 |= 0xF << 20;  // CPACR: the floating-point unit
    __asm__ volatile("dsb\n\tisb");
#endif
    initialise_monitor_handles();
    const int status = main();
    if (!is_too_long)
        printf("ticks %lu\n", (unsigned long)ticks);
    exit(status);
}

void _init(void) {}
void _fini(void) {}
