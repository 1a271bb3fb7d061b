// empty: does nothing, so that only the launch and its completion are timed.
//
// Unit: launch path (host submission, front end, block scheduler)
// Counter: kernel count of the tenant against its wall time; gr__cycles_active.sum stays near zero
extern "C" __global__ void empty()
{
}
