/* Lets the time of day jump, by a day forth and back, several times a second; preloaded into a process. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const time_t jumps[] = {0, 86400, -86400, 3600};

static int ask(clockid_t clock, struct timespec *now) { return syscall(SYS_clock_gettime, clock, now); }

int clock_gettime(clockid_t clock, struct timespec *now) {
    struct timespec steady;
    int failed = ask(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        ask(CLOCK_MONOTONIC, &steady);
        now->tv_sec += jumps[(steady.tv_sec * 4 + steady.tv_nsec / 250000000) % 4];
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec found;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now) *now = found.tv_sec;
    return found.tv_sec;
}
