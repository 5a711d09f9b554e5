/* An NVML that takes its process down when it is initialised, as real ones have. */
#include <stdlib.h>

int nvmlInit_v2(void) {
    abort();
}
