/* A small program on the driver interface in plain C, as one that has never heard of gpubench: it
 * is compiled by ci/test.sh and run unmodified over a virtual GPU, and on hardware by
 * ci/hardware/day.sh.
 *
 *     cc -Wall -Werror -o driver ci/conformance_driver.c -ldl
 *     gpubench virtual-gpu exec --machine hopper -- ./driver kernels/ptx/pattern_fill.ptx
 *
 * Prototypes are those of cuda.h and nvml.h, so that no toolkit is needed. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 2048, SEED = 11 };

static void *library(const char *name)
{
    void *handle = dlopen(name, RTLD_NOW);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return handle;
}

static void *symbol(void *handle, const char *name)
{
    void *found = dlsym(handle, name);
    if (found == NULL) {
        fprintf(stderr, "no %s\n", name);
        exit(2);
    }
    return found;
}

static void check(const char *what, int good)
{
    printf("%s %s\n", good ? "PASS" : "FAIL", what);
    if (!good) {
        exit(1);
    }
}

static uint32_t pattern(uint32_t index)
{
    uint32_t h = index ^ SEED;
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    return h ^ (h >> 16);
}

static char *text_of(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    char *text = calloc(1, 1 << 20);
    size_t length = fread(text, 1, (1 << 20) - 1, file);
    fclose(file);
    return length > 0 ? text : NULL;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: driver PATTERN_FILL.ptx\n");
        return 2;
    }
    void *cuda = library("libcuda.so.1");
    int (*init)(unsigned) = symbol(cuda, "cuInit");
    int (*count)(int *) = symbol(cuda, "cuDeviceGetCount");
    int (*create)(void **, unsigned, int) = symbol(cuda, "cuCtxCreate_v2");
    int (*destroy)(void *) = symbol(cuda, "cuCtxDestroy_v2");
    int (*load)(void **, const void *) = symbol(cuda, "cuModuleLoadData");
    int (*function)(void **, void *, const char *) = symbol(cuda, "cuModuleGetFunction");
    int (*allocate)(uint64_t *, size_t) = symbol(cuda, "cuMemAlloc_v2");
    int (*release)(uint64_t) = symbol(cuda, "cuMemFree_v2");
    int (*to_host)(void *, uint64_t, size_t) = symbol(cuda, "cuMemcpyDtoH_v2");
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **) = symbol(cuda, "cuLaunchKernel");
    int (*synchronize)(void) = symbol(cuda, "cuCtxSynchronize");

    void *context, *module, *fill;
    uint64_t memory = 0, words = WORDS;
    uint32_t seed = SEED;
    int devices = 0;
    check("cuInit", init(0) == 0);
    /* A virtual GPU is alone and says what it is; on hardware the same calls are checked. */
    int is_virtual = getenv("GPUBENCH_VIRTUAL_GPU") != NULL;
    check("a device", count(&devices) == 0 && (is_virtual ? devices == 1 : devices >= 1));
    check("a context", create(&context, 0, 0) == 0);
    check("a module", load(&module, text_of(argv[1])) == 0);
    check("a kernel", function(&fill, module, "pattern_fill") == 0);
    check("no kernel of another name", function(&fill, module, "none") == 500);
    check("a kernel", function(&fill, module, "pattern_fill") == 0);
    check("memory", allocate(&memory, 4 * WORDS) == 0);
    void *arguments[] = {&memory, &words, &seed};
    check("a launch", launch(fill, 4, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL) == 0);
    check("no launch without threads",
          launch(fill, 4, 1, 1, 0, 1, 1, 0, NULL, arguments, NULL) == 1);
    check("a wait", synchronize() == 0);
    uint32_t host[WORDS];
    check("a copy", to_host(host, memory, sizeof host) == 0);
    int right = 1;
    for (uint32_t i = 0; i < WORDS; ++i) {
        right = right && host[i] == pattern(i);
    }
    check("every word", right);
    check("a release", release(memory) == 0);
    check("no second release", release(memory) == 1);

    void *nvml = library("libnvidia-ml.so.1");
    int (*start)(void) = symbol(nvml, "nvmlInit_v2");
    int (*device)(unsigned, void **) = symbol(nvml, "nvmlDeviceGetHandleByIndex_v2");
    int (*name)(void *, char *, unsigned) = symbol(nvml, "nvmlDeviceGetName");
    void *handle;
    char called[96] = "";
    check("nvmlInit", start() == 0);
    check("a handle", device(0, &handle) == 0);
    check("a name", name(handle, called, sizeof called) == 0);
    check("that says whether it is virtual", (strncmp(called, "Virtual", 7) == 0) == is_virtual);
    check("an end", destroy(context) == 0);
    return 0;
}
