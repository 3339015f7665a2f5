/* A driver library without a driver, for tests: GPUs out of the environment.
 *
 * STUB_GPUS: compute capabilities, "9.0 7.5"; none if empty. STUB_CUDA: the CUDA it knows, 12040 for 12.4.
 * STUB_CUINIT: what cuInit returns. Nothing can be computed: what would, returns 100 (no device). STUB_LOG: a file; GPUs
 * have contexts then, and what is called with them is written to it: function, thread, GPU.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

/* The capability of GPU `index` as 10 * major + minor, 0 where there is none. */
static int capability(int index)
{
    const char *text = getenv("STUB_GPUS");
    int major, minor, length;
    for (; text && sscanf(text, " %d.%d%n", &major, &minor, &length) == 2; text += length, --index)
        if (index == 0)
            return 10 * major + minor;
    return 0;
}

int cuInit(unsigned flags) { return setting("STUB_CUINIT", 0); }
int cuDriverGetVersion(int *version) { *version = setting("STUB_CUDA", 12040); return 0; }
int cuGetErrorString(int code, const char **text)
{
    *text = code == 100 ? "no CUDA-capable device is detected" : "error of the stub";
    return 0;
}

int cuDeviceGetCount(int *count)
{
    for (*count = 0; capability(*count); ++*count)
        ;
    return 0;
}

int cuDeviceGet(int *device, int index) { *device = index; return capability(index) ? 0 : 101; }

int cuDeviceGetName(char *name, int size, int device)
{
    snprintf(name, size, "Stub GPU %d", device);
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    *value = attribute == 75 ? capability(device) / 10 : attribute == 76 ? capability(device) % 10 : 0;
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)80 << 30; return 0; }

/* NVML, for a copy of this library under the name libnvidia-ml.so.1. */
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *version, unsigned size) { strncpy(version, "550.54.15", size); return 0; }

static int logged(const char *function, int device)
{
    const char *name = getenv("STUB_LOG");
    FILE *file = name && capability(device) ? fopen(name, "a") : NULL;
    if (!file)
        return 100;
    fprintf(file, "%s %ld %d\n", function, syscall(SYS_gettid), device);
    return fclose(file);
}

/* Contexts are addresses: numbers that take more than 32 bits. */
int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = (void *)((device + 1ull) << 32);
    return logged("cuDevicePrimaryCtxRetain", device);
}

int cuCtxSetCurrent(void *context) { return logged("cuCtxSetCurrent", (int)((size_t)context >> 32) - 1); }

/* What libmxnet.so is linked against besides. */
int cuGraphKernelNodeGetParams(void) { return 100; }
int cuGraphNodeGetType(void) { return 100; }
int cuLaunchKernel(void) { return 100; }
int cuModuleGetFunction(void) { return 100; }
int cuModuleLoadData(void) { return 100; }
int cuModuleLoadDataEx(void) { return 100; }
int cuModuleUnload(void) { return 100; }
