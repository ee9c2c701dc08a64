// Faults of the operating system, ordered by a test: preloaded into the broker by LD_PRELOAD.
//
// The variable METAQ_FAULTS names a file of 4096 bytes that the test and this library share as memory:
//
//    0  i32  errno of fsync and fdatasync, 0 = they work
//    4  i32  errno of writes, 0 = they work
//    8  i32  errno of reads, 0 = they work
//   12  i32  most bytes that a write writes, 0 = all
//   16  i64  milliseconds added to the wall clock
//   24  i32  how many calls were given a fault
//   28  i32  milliseconds that fsync and fdatasync take longer
//   64  text, ended by a zero: only files with this in their path are concerned; empty = all
//
// Sockets, pipes and the like are never concerned.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct orders {
    volatile int32_t sync_errno;
    volatile int32_t write_errno;
    volatile int32_t read_errno;
    volatile int32_t write_bytes_max;
    volatile int64_t clock_ms;
    volatile int32_t faults;
    volatile int32_t sync_ms;
    char unused[32];
    volatile char path[4032];
};

static struct orders none;
static struct orders *orders = &none;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("METAQ_FAULTS");
    if (!name) return;
    int file = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CLOEXEC, 0);
    if (file < 0) return;
    void *memory = mmap(NULL, sizeof(struct orders), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) orders = memory;
    syscall(SYS_close, file);
}

static int is_concerned(int file) {
    struct stat about;
    if (fstat(file, &about) != 0 || !(S_ISREG(about.st_mode) || S_ISDIR(about.st_mode))) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strstr(path, (const char *)orders->path) != NULL;
}

static int fails(int file, int error) {
    if (!error || !is_concerned(file)) return 0;
    __atomic_add_fetch(&orders->faults, 1, __ATOMIC_SEQ_CST);
    errno = error;
    return 1;
}

static size_t allowed(int file, size_t size) {
    size_t most = (size_t)orders->write_bytes_max;
    if (most == 0 || size <= most || !is_concerned(file)) return size;
    __atomic_add_fetch(&orders->faults, 1, __ATOMIC_SEQ_CST);
    return most;
}

static void dawdle(int file) {
    if (orders->sync_ms == 0 || !is_concerned(file)) return;
    __atomic_add_fetch(&orders->faults, 1, __ATOMIC_SEQ_CST);
    // In steps, so that an order that is taken back is felt.
    for (int32_t waited = 0; waited < orders->sync_ms; waited++) {
        struct timespec step = {0, 1000000};
        nanosleep(&step, NULL);
    }
}

int fsync(int file) {
    dawdle(file);
    if (fails(file, orders->sync_errno)) return -1;
    return (int)syscall(SYS_fsync, file);
}

int fdatasync(int file) {
    dawdle(file);
    if (fails(file, orders->sync_errno)) return -1;
    return (int)syscall(SYS_fdatasync, file);
}

ssize_t write(int file, const void *bytes, size_t size) {
    if (fails(file, orders->write_errno)) return -1;
    return syscall(SYS_write, file, bytes, allowed(file, size));
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t position) {
    if (fails(file, orders->write_errno)) return -1;
    return syscall(SYS_pwrite64, file, bytes, allowed(file, size), position);
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t position) {
    return pwrite64(file, bytes, size, position);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t position) {
    if (fails(file, orders->write_errno)) return -1;
    if (orders->write_bytes_max != 0 && count > 0) {
        return pwrite64(file, parts[0].iov_base, parts[0].iov_len, position);
    }
    return syscall(SYS_pwritev, file, parts, count, position, 0);
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t position) {
    return pwritev64(file, parts, count, position);
}

ssize_t read(int file, void *bytes, size_t size) {
    if (fails(file, orders->read_errno)) return -1;
    return syscall(SYS_read, file, bytes, size);
}

ssize_t pread64(int file, void *bytes, size_t size, off64_t position) {
    if (fails(file, orders->read_errno)) return -1;
    return syscall(SYS_pread64, file, bytes, size, position);
}

ssize_t pread(int file, void *bytes, size_t size, off_t position) {
    return pread64(file, bytes, size, position);
}

ssize_t sendfile64(int to, int file, off64_t *position, size_t size) {
    if (fails(file, orders->read_errno)) return -1;
    return syscall(SYS_sendfile, to, file, position, size);
}

ssize_t sendfile(int to, int file, off_t *position, size_t size) {
    return sendfile64(to, file, position, size);
}

static void move(int64_t *seconds, long *nanoseconds) {
    int64_t ms = orders->clock_ms;
    *seconds += ms / 1000;
    *nanoseconds += (long)(ms % 1000) * 1000000;
    if (*nanoseconds < 0) {
        *nanoseconds += 1000000000;
        *seconds -= 1;
    } else if (*nanoseconds >= 1000000000) {
        *nanoseconds -= 1000000000;
        *seconds += 1;
    }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*original)(clockid_t, struct timespec *);
    if (!original) original = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int outcome = original(clock, time);
    if (outcome == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t seconds = time->tv_sec;
        long nanoseconds = time->tv_nsec;
        move(&seconds, &nanoseconds);
        time->tv_sec = seconds;
        time->tv_nsec = nanoseconds;
    }
    return outcome;
}
