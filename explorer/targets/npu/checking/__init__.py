"""What is wrong with a program, found before it runs.

for finding in check_program(program, image, machine):
    print(finding)     instruction 7 (load activations ...): writes activations 0 to 15, which
                       instruction 5 (multiply ...) may still read: no token orders them

order.py      in which order queues can execute, and who waits forever: deadlocks
accesses.py   which elements and bytes an instruction reads and writes: bounds
races.py      accesses of two queues that no token orders
"""

from explorer.targets.npu.checking.checks import Finding, check_program

__all__ = ["Finding", "check_program"]
