// fault_assert: fails a device-side assertion when armed.
//
// Unit: none; a fault (710 CUDA_ERROR_ASSERT; the message goes to the process's standard error)
// Counter: the code of the next synchronising call
extern "C" __device__ void __assertfail(const char *message, const char *file, unsigned int line,
                                        const char *function, size_t char_bytes);

extern "C" __global__ void fault_assert(unsigned int armed, unsigned int *done)
{
    if (armed != 0) {
        __assertfail("armed == 0", "fault_assert.cu", 0, "fault_assert", 1);
    }
    *done = 1;
}
