/* A driver that hangs where $HANG says: NVML in "init", "count" or "name", CUDA in "cuinit". Otherwise two idle GPUs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void hang(const char *where) {
    const char *wanted = getenv("HANG");
    while (wanted && strcmp(wanted, where) == 0)
        pause();
}

int nvmlInit_v2(void) {
    hang("init");
    return 0;
}

int nvmlShutdown(void) {
    return 0;
}

const char *nvmlErrorString(int error) {
    return error ? "an error" : "success";
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    hang("count");
    *count = 2;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = (void *)(size_t)(index + 1);
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device) {
    unsigned domain, bus;
    if (sscanf(address, "%x:%x:", &domain, &bus) != 2)
        return 2;
    *device = (void *)(size_t)bus;
    return 0;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length) {
    hang("name");
    snprintf(name, length, "NVIDIA H100 80GB HBM3");
    return 0;
}

struct address {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
};

int nvmlDeviceGetPciInfo_v3(void *device, struct address *found) {
    memset(found, 0, sizeof *found);
    found->bus = (unsigned)(size_t)device;
    found->id = 0x233010de;
    snprintf(found->legacy, sizeof found->legacy, "0000:%02x:00.0", found->bus);
    snprintf(found->text, sizeof found->text, "00000000:%02X:00.0", found->bus);
    return 0;
}

int cuInit(unsigned flags) {
    hang("cuinit");
    return flags ? 1 : 999;
}
