/* Shows long text with a pager.
 *
 * Standard output is replaced by a file in memory, so commands print as usual. At the end of the process, the pager
 * gets this file as its standard input. There is no pipe: a pager that is quit early causes no SIGPIPE, and the exit
 * status of the command does not change. */
#include "gwi_terminal.h"

#include "gw_say.h"
#include "gw_text.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 24, COLUMNS = 80, CANNOT_EXECUTE = 126, NOT_FOUND = 127 };

static const char standard_pager[] = "less"; /* no message if it is not installed */

/* The terminal behind standard output, and the process that collects the text for it. */
static struct collected {
    bool on;
    int terminal; /* duplicate of standard output as it was */
    pid_t owner;  /* a forked process that exits must not print the text, too */
} collected;

/* Return the pager's command, or NULL if there is none. */
static const char *command_of(void)
{
    static const char *const names[] = {"GPUWHY_PAGER", "PAGER"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL)
            return value[0] == '\0' || strcmp(value, "cat") == 0 ? NULL : value;
    }
    return gwi_terminal_is_dumb() ? NULL : standard_pager;
}

/* ---- the text ---- */

/* Read what was printed. */
static void read_all(gw_text *text)
{
    char part[4096];
    off_t at = 0;
    for (;;) {
        ssize_t bytes = pread(STDOUT_FILENO, part, sizeof part, at);
        if (bytes < 0 && errno == EINTR)
            continue;
        if (bytes <= 0)
            return;
        gw_text_add(text, part, (size_t)bytes);
        at += bytes;
    }
}

/* Write the text to the terminal. What cannot be written is lost. */
static void write_all(int fd, const gw_text *text)
{
    for (size_t at = 0; at < text->bytes;) {
        ssize_t bytes = write(fd, text->data + at, text->bytes - at);
        if (bytes < 0 && errno != EINTR)
            return;
        at += bytes > 0 ? (size_t)bytes : 0;
    }
}

/* True if the terminal needs more than its rows for a text without colours and the next prompt. Lines that are longer
 * than the terminal is wide take several rows. */
static bool is_long(const char *text, int fd)
{
    struct winsize size = {0};
    bool known = ioctl(fd, TIOCGWINSZ, &size) == 0;
    size_t rows = known && size.ws_row > 0 ? size.ws_row : ROWS;
    size_t width = known && size.ws_col > 0 ? size.ws_col : COLUMNS, column = 0, row = 0;
    for (const char *c = text; *c != '\0' && row < rows; c++) {
        bool is_continuation = ((unsigned char)*c & 0xC0) == 0x80;
        if (*c == '\n') {
            row++;
            column = 0;
        } else if (!is_continuation && column++ == width) {
            row++;
            column = 1;
        }
    }
    return row + (column > 0) >= rows;
}

/* ---- the pager ---- */

static void become_pager(const char *command)
{
    lseek(STDOUT_FILENO, 0, SEEK_SET);
    if (dup2(STDOUT_FILENO, STDIN_FILENO) < 0 || dup2(collected.terminal, STDOUT_FILENO) < 0)
        _exit(NOT_FOUND);
    setenv("LESS", "FRX", 0);
    if (strpbrk(command, " \t\n|&;<>()$`\\\"'*?[#~=%") == NULL)
        execlp(command, command, (char *)NULL);
    else
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(errno == ENOENT ? NOT_FOUND : CANNOT_EXECUTE);
}

/* Run the pager and wait for it. Returns false if it cannot be started. */
static bool run_pager(const char *command)
{
    /* ^C is for the pager alone */
    void (*interrupt)(int) = signal(SIGINT, SIG_IGN), (*quit)(int) = signal(SIGQUIT, SIG_IGN);
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGINT, interrupt);
        signal(SIGQUIT, quit);
        become_pager(command);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    signal(SIGINT, interrupt);
    signal(SIGQUIT, quit);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    bool good = child > 0 && code != NOT_FOUND && code != CANNOT_EXECUTE;
    if (!good && strcmp(command, standard_pager) != 0)
        gw_say("cannot start the pager %s; the text follows", command);
    return good;
}

/* Show what was collected. Runs at exit. */
static void show(void)
{
    const char *command = command_of();
    if (!collected.on || getpid() != collected.owner)
        return;
    fflush(stdout);
    gw_text text = {0}, plain = {0};
    read_all(&text);
    gw_paint_remove(gw_text_str(&text), &plain);
    bool is_shown = command != NULL && is_long(gw_text_str(&plain), collected.terminal) && run_pager(command);
    collected.on = false;
    gwi_terminal_replace(-1);
    dup2(collected.terminal, STDOUT_FILENO);
    close(collected.terminal);
    if (!is_shown)
        write_all(STDOUT_FILENO, &text);
    gw_text_free(&plain);
    gw_text_free(&text);
}

static bool collect(void)
{
    int file = memfd_create("gpuwhy-text", MFD_CLOEXEC);
    int terminal = file < 0 ? -1 : dup(STDOUT_FILENO);
    fflush(stdout);
    bool good = terminal >= 0 && dup2(file, STDOUT_FILENO) >= 0;
    if (file >= 0)
        close(file);
    if (!good && terminal >= 0)
        close(terminal);
    collected.terminal = terminal;
    collected.owner = getpid();
    return good;
}

void gwi_pager_begin(void)
{
    if (collected.on || gwi_common()->no_pager || isatty(STDOUT_FILENO) == 0 || command_of() == NULL)
        return;
    collected.on = collect();
    if (!collected.on)
        return;
    gwi_terminal_replace(collected.terminal);
    if (atexit(show) != 0)
        show();
}
