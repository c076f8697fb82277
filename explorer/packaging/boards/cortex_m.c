// Starts a self-test on a processor of Arm's M profile in an emulator: vectors, memory, main, exit.
// Files and text go through semihosting (newlib's rdimon.specs).
#include <stdint.h>
#include <stdlib.h>

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
    exit(main());
}

void _init(void) {}
void _fini(void) {}
