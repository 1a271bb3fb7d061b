/* A user's program that launches kernels through the driver API and reports each request.
 * With one argument it breaks the protocol in its first message. With `wicked FILE` it fails in
 * some orders; FILE counts the orders over all restarts. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char KERNEL[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry work(.param .u64 out)\n{\n"
    ".reg .u32 %i; .reg .f32 %x; .reg .u64 %out; .reg .pred %more;\n"
    "ld.param.u64 %out, [out];\nmov.u32 %i, 0;\nmov.f32 %x, 0f3F800000;\n"
    "again:\nfma.rn.f32 %x, %x, %x, %x;\nadd.u32 %i, %i, 1;\n"
    "setp.lt.u32 %more, %i, 100000;\n@%more bra again;\n"
    "st.global.f32 [%out], %x;\nret;\n}\n";

static void *library;

/* Calls a driver function by name; an error ends the program. */
#define CALL(name, ...)                                                                \
    do {                                                                               \
        int (*function)() = (int (*)())dlsym(library, name);                           \
        int code = function ? function(__VA_ARGS__) : -1;                              \
        if (code != 0) {                                                               \
            fprintf(stderr, "victim: %s: %d\n", name, code);                           \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t field(const char *line, const char *name) {
    const char *at = strstr(line, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* Leaves a process that is in its own session, ignores SIGTERM and holds all descriptors. */
static void leave_a_child(void) {
    if (fork() == 0) {
        setsid();
        signal(SIGTERM, SIG_IGN);
        if (fork() != 0) _exit(0);
        for (;;) pause();
    }
}

/* The number of this order, from 0, over all restarts. */
static int order_number(const char *file) {
    int number = 0;
    FILE *counted = fopen(file, "r");
    if (counted) {
        if (fscanf(counted, "%d", &number) != 1) number = 0;
        fclose(counted);
    }
    counted = fopen(file, "w");
    if (!counted) exit(3);
    fprintf(counted, "%d", number + 1);
    fclose(counted);
    return number;
}

/* Fails in the middle of an order, after a few requests. */
static void fail(int number, FILE *out) {
    unsigned long long at = now_ns();
    switch (number) {
    case 3: fprintf(out, "took 3 ms\n"); break;
    case 5: raise(SIGKILL); break;
    case 7: exit(0);
    case 9:
        for (;;) fprintf(out, "{\"start_ns\":%llu,\"end_ns\":%llu}\n", at, at + 1);
    case 11: for (;;) pause();
    default: break;
    }
}

int main(int count, char **arguments) {
    const char *wicked = count > 2 ? arguments[2] : NULL;
    if (wicked) leave_a_child();
    int device;
    uint64_t memory;
    void *context, *module, *kernel;
    int descriptor = atoi(getenv("GPUBENCH_VICTIM_FD"));
    FILE *in = fdopen(descriptor, "r"), *out = fdopen(descriptor, "w");
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!in || !out || !library) return 2;
    setvbuf(out, NULL, _IOLBF, 1 << 12);
    CALL("cuInit", 0u);
    CALL("cuDeviceGet", &device, 0);
    CALL("cuCtxCreate_v2", &context, 0u, device);
    CALL("cuModuleLoadData", &module, (const void *)KERNEL);
    CALL("cuModuleGetFunction", &kernel, module, "work");
    CALL("cuMemAlloc_v2", &memory, (size_t)4);
    void *parameters[] = {&memory};
    if (count == 2) {
        fprintf(out, "{\"ready\":true}\nhello\n");
        fflush(out);
    } else {
        fprintf(out, "{\"ready\":true}\n");
    }
    static char line[1 << 16];
    while (fgets(line, sizeof line, in) && strstr(line, "run")) {
        uint64_t from = field(line, "\"from_ns\":"), until = field(line, "\"until_ns\":");
        int number = wicked ? order_number(wicked) : -1, done = 0;
        while (now_ns() < from) {
        }
        for (uint64_t start = now_ns(); start < until; start = now_ns()) {
            CALL("cuLaunchKernel", kernel, 1u, 1u, 1u, 32u, 1u, 1u, 0u, (void *)0, parameters,
                 (void *)0);
            CALL("cuCtxSynchronize");
            fprintf(out, "{\"start_ns\":%llu,\"end_ns\":%llu}\n", (unsigned long long)start,
                    (unsigned long long)now_ns());
            if (++done == 5) fail(number, out);
        }
        fprintf(out, "{\"done\":true}\n");
    }
    /* With `wicked` it ignores the request to end. */
    while (wicked) pause();
    return 0;
}
