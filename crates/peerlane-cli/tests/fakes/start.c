/* A driver and an NVML of two GPUs whose slow calls wait until they are allowed to end: cuInit and nvmlInit_v2 for the file that
 * GATE names, a context for the second one. The file that LOG names gets a line as each of them begins and ends. No context
 * comes about. One source for both libraries. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_MS = 20000, UNKNOWN = 999 };

static void note(const char *what, const char *call) {
    char line[64];
    int length = snprintf(line, sizeof line, "%s %s\n", what, call);
    int file = open(getenv("LOG"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (file < 0 || write(file, line, (size_t)length) != length)
        abort();
    close(file);
}

static int gate_is_open(void) {
    return access(getenv("GATE"), F_OK) == 0;
}

static atomic_int contexts;

static int both_contexts(void) {
    return atomic_load(&contexts) >= 2;
}

static void wait_for(int (*allowed)(void)) {
    for (int ms = 0; ms < PATIENCE_MS && !allowed(); ms += 5)
        usleep(5000);
}

static void slow(const char *call) {
    note("begin", call);
    wait_for(gate_is_open);
    note("end", call);
}

int cuInit(unsigned flags) {
    (void)flags;
    slow("cuInit");
    return 0;
}

int cuDeviceGetCount(int *count) {
    *count = 2;
    return 0;
}

int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return 0;
}

int cuDeviceGetPCIBusId(char *text, int length, int device) {
    snprintf(text, (size_t)length, "0000:%02x:00.0", device + 1);
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    (void)context, (void)device;
    note("begin", "context");
    atomic_fetch_add(&contexts, 1);
    wait_for(both_contexts);
    note("end", "context");
    return UNKNOWN;
}

int nvmlInit_v2(void) {
    slow("nvmlInit");
    return 0;
}

int nvmlShutdown(void) {
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device) {
    *device = (void *)(strtol(address + 5, NULL, 16) * 8);
    return 0;
}
