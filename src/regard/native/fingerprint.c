/* A fingerprint of memory: whether weights are still the ones that something was made of.
 *
 * Each lane does h = (h ^ word) * m with m odd, which is one to one in h and in the word: no change
 * of a single word goes unseen, and any other change with a chance of about 2^-32 a lane. It is
 * bound by the memory it reads, 20 GB/s on one core of a Zen 4. */
#include "regard.h"

#define TEMPLATE "fingerprint.inc"
#include "levels.h"

/* addresses and bytes: of `count` blocks of memory. */
REGARD_API int regard_fingerprint(int64_t count, const int64_t *addresses, const int64_t *bytes,
                                   uint64_t *out) {
    uint64_t found = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < count; i++)
        REGARD_DISPATCH(fingerprint, ((const char *)(uintptr_t)addresses[i], bytes[i], &found));
    *out = found;
    return WELL;
}
