/* Look up names in a child process. A file that crashes the child loses only its own names. A child whose time is over
 * is killed, and the names found so far are kept.
 *
 * The child writes its results to a pipe, as messages in this process's own memory layout:
 *
 *   message = head payload        head = { kind, state, count, bytes of payload, index }
 *   BEGIN   the file of symbol `index` is next; state 1: its lines
 *   FOUND   `count` frames: u32 line, u32 bytes of function, u32 bytes of file (all ones: NULL), then both texts,
 *           each with a final 0
 *
 * The last BEGIN names the file that crashed a child. The next child skips that file or only its lines. */
#include "gw_array.h"
#include "gwi_inner.h"

#include "gw_clock.h"
#include "gw_text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MESSAGE_BEGIN = 1, MESSAGE_FOUND = 2 };
enum { TEXT_BYTES_MAX = 4096, CHILDREN_MAX = 8, NO_TEXT = -1 };

typedef struct head {
    uint8_t kind, state;
    uint16_t count;
    uint32_t bytes;
    uint64_t index;
} head;

/* ---- the child ---- */

typedef struct teller {
    int fd;
    gw_text text; /* not written yet */
} teller;

static void tell_now(teller *to)
{
    for (size_t at = 0; at < to->text.bytes;) {
        ssize_t written = write(to->fd, to->text.data + at, to->text.bytes - at);
        if (written < 0 && errno != EINTR)
            _exit(1); /* the parent no longer reads the pipe */
        at += written > 0 ? (size_t)written : 0;
    }
    gw_text_clear(&to->text);
}

static void tell(teller *to, const void *data, size_t bytes)
{
    enum { PART_BYTES = 64 << 10 };
    gw_text_add(&to->text, data, bytes);
    if (to->text.failed)
        _exit(1);
    if (to->text.bytes >= PART_BYTES)
        tell_now(to);
}

static void child_begin(void *user, size_t index, bool lines)
{
    head message = {.kind = MESSAGE_BEGIN, .state = lines, .index = index};
    tell(user, &message, sizeof message);
    tell_now(user); /* the message must be written before the file can crash the child */
}

static int32_t text_bytes(const char *text)
{
    return text == NULL ? NO_TEXT : (int32_t)strnlen(text, TEXT_BYTES_MAX);
}

static uint32_t told_bytes(int32_t bytes)
{
    return bytes == NO_TEXT ? 0 : (uint32_t)bytes + 1;
}

static void tell_text(teller *to, const char *text, int32_t bytes)
{
    if (bytes == NO_TEXT)
        return;
    tell(to, text, (size_t)bytes);
    tell(to, "", 1);
}

static void child_found(void *user, size_t index, uint8_t state, const gw_symbol_frame *frame, uint32_t count)
{
    head message = {.kind = MESSAGE_FOUND, .state = state, .count = (uint16_t)count, .index = index};
    for (uint32_t i = 0; i < count; i++)
        message.bytes += 16 + told_bytes(text_bytes(frame[i].function)) + told_bytes(text_bytes(frame[i].file));
    tell(user, &message, sizeof message);
    for (uint32_t i = 0; i < count; i++) {
        int32_t numbers[4] = {(int32_t)frame[i].line, text_bytes(frame[i].function), text_bytes(frame[i].file),
                              (int32_t)frame[i].column};
        tell(user, numbers, sizeof numbers);
        tell_text(user, frame[i].function, numbers[1]);
        tell_text(user, frame[i].file, numbers[2]);
    }
}

static void limit(__rlimit_resource_t resource, uint64_t value)
{
    struct rlimit now;
    if (getrlimit(resource, &now) == 0 && now.rlim_cur > value) {
        now.rlim_cur = value;
        setrlimit(resource, &now);
    }
}

__attribute__((noreturn)) static void be_child(int fd, const gw_symbol *symbols, size_t count, const uint8_t *avoid,
                                               const gw_symbols_options *options)
{
    static teller to;
    gwi_listener listener = {child_begin, child_found, &to};
    to.fd = fd;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    limit(RLIMIT_CORE, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* sanitizers need more memory from the start */
    limit(RLIMIT_DATA, (uint64_t)4 << 30);
#endif
    uint64_t deadline_ns = gw_processor_ns() + (uint64_t)options->soft_ms * 1000000u;
    gwi_symbols_read(symbols, count, avoid, options->begun_realtime_ns, deadline_ns, &listener);
    tell_now(&to);
    _exit(0);
}

/* ---- this process ---- */

typedef struct listening {
    gw_symbol *symbols;
    size_t count;
    uint8_t *avoid; /* owned */
    uint8_t *found; /* owned: state of each symbol that this call found */
    char *buffer;   /* owned */
    size_t used, capacity;
    size_t at_index; /* `index` of the last BEGIN message */
    bool at_lines, begun, nomem;
} listening;

/* Take a text with its final 0 from *at. Returns false if the message is malformed. */
static bool take_text(const char **at, const char *end, int32_t bytes, const char **ret_text)
{
    *ret_text = bytes == NO_TEXT ? NULL : *at;
    if (bytes == NO_TEXT)
        return true;
    if (bytes < 0 || end - *at <= bytes || (*at)[bytes] != '\0')
        return false;
    *at += bytes + 1;
    return true;
}

static bool take_frame(const char **at, const char *end, gw_symbol_frame *frame)
{
    int32_t numbers[4];
    if ((size_t)(end - *at) < sizeof numbers)
        return false;
    memcpy(numbers, *at, sizeof numbers);
    *at += sizeof numbers;
    frame->line = (uint32_t)numbers[0];
    frame->column = (uint32_t)numbers[3];
    return take_text(at, end, numbers[1], &frame->function) && take_text(at, end, numbers[2], &frame->file);
}

/* Store the frames of a message, which keep a copy of the message with their texts. */
static bool take_frames(listening *to, const head *message, const char *payload)
{
    gw_symbol *symbol = &to->symbols[message->index];
    gw_symbol_frame *frame = NULL;
    if (message->count > GW_SYMBOL_FRAMES_MAX)
        return false;
    if (message->count > 0) {
        frame = malloc(message->count * sizeof *frame + message->bytes);
        if (frame == NULL) {
            to->nomem = true;
            return true;
        }
        const char *at = memcpy(frame + message->count, payload, message->bytes), *end = at + message->bytes;
        for (unsigned i = 0; i < message->count; i++) {
            if (!take_frame(&at, end, &frame[i])) {
                free(frame);
                return false;
            }
        }
    }
    free(symbol->frame);
    symbol->frame = frame;
    symbol->count = message->count;
    to->found[message->index] = message->state;
    return true;
}

/* Process all complete messages in the buffer. Returns false if a message is malformed. */
static bool take_messages(listening *to)
{
    size_t at = 0;
    for (;;) {
        head message;
        if (to->used - at < sizeof message)
            break;
        memcpy(&message, to->buffer + at, sizeof message);
        if (message.index >= to->count || message.bytes > GW_SYMBOL_FRAMES_MAX * (16 + 2 * (TEXT_BYTES_MAX + 1)))
            return false;
        if (to->used - at - sizeof message < message.bytes)
            break;
        if (message.kind == MESSAGE_BEGIN) {
            to->at_index = message.index;
            to->at_lines = message.state != 0;
            to->begun = true;
        } else if (message.kind != MESSAGE_FOUND || !take_frames(to, &message, to->buffer + at + sizeof message)) {
            return false;
        }
        at += sizeof message + message.bytes;
    }
    memmove(to->buffer, to->buffer + at, to->used - at);
    to->used -= at;
    return true;
}

/* True if the child's time is over. Its CPU time is limited, so that the load on the machine does not matter. The real
 * time is limited, too, because a slow file system uses no CPU time. */
static bool is_over(pid_t child, const gw_symbols_options *options, uint64_t begun_ns)
{
    enum { WALL_FACTOR = 4 };
    uint64_t hard_ns = (uint64_t)options->hard_ms * 1000000u;
    clockid_t clock;
    if (gw_monotonic_ns() >= begun_ns + WALL_FACTOR * hard_ns)
        return true;
    return clock_getcpuclockid(child, &clock) == 0 && gw_clock_ns(clock) >= hard_ns;
}

/* Read until the child closes its end of the pipe. Returns false if the time is over, a message is malformed, or
 * reading fails. */
static bool listen_to(listening *to, int fd, pid_t child, const gw_symbols_options *options, uint64_t begun_ns)
{
    enum { LOOK_EVERY_MS = 50, PART_BYTES = 64 << 10 };
    to->used = 0;
    for (;;) {
        struct pollfd in = {.fd = fd, .events = POLLIN};
        if (is_over(child, options, begun_ns) || !gw_array_reach(&to->buffer, to->used + PART_BYTES, &to->capacity, 1))
            return false;
        int ready = poll(&in, 1, LOOK_EVERY_MS);
        if (ready < 0 && errno != EINTR)
            return false;
        if (ready <= 0)
            continue;
        ssize_t got = read(fd, to->buffer + to->used, to->capacity - to->used);
        if (got == 0)
            return true;
        if (got < 0 && errno != EINTR)
            return false;
        to->used += got > 0 ? (size_t)got : 0;
        if (!take_messages(to))
            return false;
    }
}

static void avoid_file(listening *to)
{
    const gw_symbol *bad = &to->symbols[to->at_index];
    for (size_t i = 0; i < to->count; i++) {
        if (to->symbols[i].build_id != bad->build_id || strcmp(to->symbols[i].path, bad->path) != 0)
            continue;
        to->avoid[i] = to->at_lines ? GWI_AVOID_LINES : GWI_AVOID_FILE;
        if (!to->at_lines && to->found[i] == GW_SYMBOL_NOT_ASKED && to->symbols[i].state == GW_SYMBOL_NOT_ASKED)
            to->found[i] = GW_SYMBOL_DAMAGED;
    }
}

/* Wait at most a second until the child has ended. A process that waits for a hung disk does not end, even if it was
 * killed. */
static bool wait_for_end(pid_t child, int *ret_status)
{
    enum { PATIENCE_MS = 1000 };
    for (int ms = 0; ms < PATIENCE_MS; ms++) {
        pid_t got = waitpid(child, ret_status, WNOHANG);
        if (got == child || (got < 0 && errno != EINTR))
            return true;
        poll(NULL, 0, 1);
    }
    return false;
}

/* Run one child. *ret_again is true if the child died on a file that the next child will skip. */
static gw_status run_child(listening *to, const gw_symbols_options *options, uint64_t begun_ns, bool *ret_again,
                           gw_error *err)
{
    int ends[2], status = 0;
    *ret_again = false;
    to->begun = false;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return gw_fail(err, GW_IO, "look up symbols: pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        be_child(ends[1], to->symbols, to->count, to->avoid, options);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return gw_fail(err, GW_IO, "look up symbols: fork: %s", strerror(errno));
    }
    bool heard = listen_to(to, ends[0], child, options, begun_ns);
    close(ends[0]);
    if (!heard)
        kill(child, SIGKILL);
    bool ended = wait_for_end(child, &status);
    bool crashed = ended && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (heard && crashed && to->begun) {
        avoid_file(to);
        *ret_again = true;
    }
    return to->nomem ? gw_fail(err, GW_NOMEM, "look up symbols") : GW_OK;
}

gw_status gw_symbols_resolve(gw_symbol *symbols, size_t count, const gw_symbols_options *options, gw_error *err)
{
    uint64_t begun_ns = gw_monotonic_ns();
    bool asked = false, again = true;
    for (size_t i = 0; i < count; i++)
        asked = asked || symbols[i].state == GW_SYMBOL_NOT_ASKED;
    if (!asked)
        return GW_OK;
    gw_status st = GW_OK;
    listening to = {.symbols = symbols, .count = count};
    to.avoid = calloc(count, 1);
    to.found = calloc(count, 1);
    if (to.avoid == NULL || to.found == NULL)
        st = gw_fail(err, GW_NOMEM, "look up symbols");
    for (int i = 0; i < CHILDREN_MAX && again && st == GW_OK; i++)
        st = run_child(&to, options, begun_ns, &again, err);
    for (size_t i = 0; i < count; i++) {
        if (symbols[i].state != GW_SYMBOL_NOT_ASKED)
            continue;
        uint8_t state = to.found == NULL ? GW_SYMBOL_NOT_ASKED : to.found[i];
        symbols[i].state = state == GW_SYMBOL_NOT_ASKED ? GW_SYMBOL_LATE : state;
    }
    free(to.avoid);
    free(to.found);
    free(to.buffer);
    return st;
}
