/* A program on the driver interface, compiled with the headers of CUDA 13, whose names mean the
 * newest form of each call: a context, a module from a file, more shared memory than the default, a
 * copy of rows, a fill, and attributes of an address. ci/test.sh compiles and links it over a
 * virtual GPU, with the headers of the wheel nvidia-cuda-runtime. */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 64, HEIGHT = 32, WORDS = WIDTH * HEIGHT, SEED = 11 };

#define CALL(name, ...)                                                     \
    do {                                                                    \
        CUresult code = name(__VA_ARGS__);                                  \
        printf("%s " #name "\n", code == CUDA_SUCCESS ? "PASS" : "FAIL");   \
        if (code != CUDA_SUCCESS) {                                         \
            fprintf(stderr, #name " answers %d\n", code);                   \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static uint32_t pattern(uint32_t index)
{
    uint32_t h = index ^ SEED;
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    return h ^ (h >> 16);
}

int main(int count, char **arguments)
{
    static uint32_t rows[WORDS];
    CUcontext context;
    CUctxCreateParams params;
    CUdevice device;
    CUmodule module;
    CUfunction function;
    CUdeviceptr words, pitched;
    size_t pitch;
    int major, shared;
    memset(&params, 0, sizeof params);
    if (count != 2) {
        return 2;
    }
    CALL(cuInit, 0);
    CALL(cuDeviceGet, &device, 0);
    CALL(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    CALL(cuCtxCreate, &context, &params, 0, device);
    CALL(cuModuleLoad, &module, arguments[1]);
    CALL(cuModuleGetFunction, &function, module, "pattern_fill");
    CALL(cuDeviceGetAttribute, &shared,
         CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
    CALL(cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared);
    CALL(cuMemAlloc, &words, sizeof rows);
    uint64_t length = WORDS;
    uint32_t seed = SEED;
    void *values[] = {&words, &length, &seed};
    CALL(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, (unsigned)shared, NULL, values, NULL);
    CALL(cuCtxSynchronize);
    CALL(cuMemAllocPitch, &pitched, &pitch, WIDTH * 4, HEIGHT, 4);
    CALL(cuMemsetD2D8, pitched, pitch, 0xff, WIDTH * 4, HEIGHT);
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = words,
                          .srcPitch = WIDTH * 4, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = pitched, .dstPitch = pitch, .WidthInBytes = WIDTH * 4,
                          .Height = HEIGHT};
    CALL(cuMemcpy2D, &copy);
    copy = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = pitched,
                           .srcPitch = pitch, .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = rows,
                           .dstPitch = WIDTH * 4, .WidthInBytes = WIDTH * 4, .Height = HEIGHT};
    CALL(cuMemcpy2D, &copy);
    CUmemorytype type;
    CALL(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pitched);
    int wrong = type != CU_MEMORYTYPE_DEVICE;
    for (uint32_t index = 0; index < WORDS; index++) {
        wrong += rows[index] != pattern(index);
    }
    printf("%s every word of %d rows\n", wrong ? "FAIL" : "PASS", HEIGHT);
    CALL(cuModuleUnload, module);
    CALL(cuCtxDestroy, context);
    return wrong != 0;
}
