"""OpenCL programs: devices, memory, runs."""

from explorer.runtime.driver_caches import use_writable_caches

use_writable_caches()  # pyopencl, which every module here imports, reads its variable then
