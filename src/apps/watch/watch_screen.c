/* The full-screen view of `gpuwhy watch`: a thin shell of ncurses around gw_watch_draw(). */
#include "gwi_terminal.h"
#include "gwi_watch_cmd.h"

#if GW_HAVE_CURSES

#include "gw_clock.h"

#include <ncursesw/ncurses.h>

#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_ESCAPE = 27, FILTER_MAX = 60 };

typedef struct screen {
    gw_watch_view view;
    char filter[FILTER_MAX + 1];
    unsigned top_max;
    bool quit, refresh_now, colour;
} screen;

/* ---- drawing ---- */

static attr_t style_of(int which, bool colour)
{
    static const attr_t plain[GW_MARK_END] = {
        [GW_MARK_TITLE] = A_BOLD, [GW_MARK_HEAD] = A_BOLD, [GW_MARK_DIM] = A_DIM, [GW_MARK_ALARM] = A_BOLD};
    attr_t style = plain[which];
    if (!colour)
        return which == GW_MARK_ALARM ? A_REVERSE : style;
    if (which == GW_MARK_GOOD || which == GW_MARK_WARN || which == GW_MARK_ALARM)
        style |= COLOR_PAIR(which);
    return style;
}

/* Return true if there are colours: the user wants them, and the terminal has them. */
static bool begin_colours(void)
{
    if (!gwi_has_colour(STDOUT_FILENO) || !has_colors())
        return false;
    start_color();
    use_default_colors();
    init_pair(GW_MARK_GOOD, COLOR_GREEN, -1);
    init_pair(GW_MARK_WARN, COLOR_YELLOW, -1);
    init_pair(GW_MARK_ALARM, COLOR_RED, -1);
    return true;
}

static void show_line(int row, const char *line, size_t bytes, bool colour)
{
    move(row, 0);
    attrset(A_NORMAL);
    for (size_t i = 0, from = 0; i <= bytes; i++) {
        bool is_mark = i < bytes && line[i] > 0 && line[i] < GW_MARK_END;
        if (i < bytes && !is_mark)
            continue;
        addnstr(line + from, (int)(i - from));
        if (is_mark)
            attrset(style_of(line[i], colour));
        from = i + 1;
    }
}

static void draw(screen *it, const gw_watch_snapshot *snapshot)
{
    gw_text text = {0};
    int row = 0;
    it->view.width = COLS > 0 ? (unsigned)COLS : 80;
    it->view.height = LINES > 0 ? (unsigned)LINES : 24;
    gw_watch_draw(snapshot, &it->view, &text, &it->top_max);
    if (it->view.top > it->top_max)
        it->view.top = it->top_max;
    erase();
    for (const char *at = gw_text_str(&text); *at != '\0' && row < LINES; row++) {
        size_t bytes = strcspn(at, "\n");
        show_line(row, at, bytes, it->colour);
        at += bytes + (at[bytes] == '\n');
    }
    refresh();
    gw_text_free(&text);
}

/* ---- keys ---- */

static void type_filter(screen *it, int key)
{
    size_t bytes = strlen(it->filter);
    if (key == '\n' || key == KEY_ENTER) {
        it->view.is_typing = false;
    } else if (key == KEY_ESCAPE) {
        it->view.is_typing = false;
        it->filter[0] = '\0';
    } else if ((key == KEY_BACKSPACE || key == 127 || key == 8) && bytes > 0) {
        while (--bytes > 0 && ((unsigned char)it->filter[bytes] & 0xc0) == 0x80)
            continue; /* the end of a UTF-8 sequence goes with its beginning */
        it->filter[bytes] = '\0';
    } else if (key >= ' ' && key < 256 && key != 127 && bytes < FILTER_MAX) {
        it->filter[bytes] = (char)key;
        it->filter[bytes + 1] = '\0';
    }
}

static void scroll_by(screen *it, int lines)
{
    int top = (int)it->view.top + lines;
    it->view.top = top < 0 ? 0 : (unsigned)top;
    if (it->view.top > it->top_max)
        it->view.top = it->top_max;
}

static bool is_order(screen *it, int key)
{
    static const char keys[GW_WATCH_ORDER_COUNT] = {
#define GW_X(name, letter, text) letter,
        GW_WATCH_ORDERS(GW_X)
#undef GW_X
    };
    for (unsigned i = 0; i < GW_WATCH_ORDER_COUNT; i++) {
        if (keys[i] != key)
            continue;
        it->view.order = (gw_watch_order)i;
        return true;
    }
    return false;
}

static void take_key(screen *it, int key)
{
    int page = LINES > 4 ? LINES - 4 : 1;
    if (it->view.is_typing) {
        type_filter(it, key);
        return;
    }
    if (it->view.help && key != KEY_RESIZE && key != 'q') {
        it->view.help = false;
        it->view.top = 0;
        return;
    }
    switch (key) {
    case 'q':
    case 'Q':
        it->quit = true;
        break;
    case '?':
    case 'h':
        it->view.help = true;
        it->view.top = 0;
        break;
    case '/':
        it->view.is_typing = true;
        it->view.top = 0;
        break;
    case KEY_ESCAPE:
        it->filter[0] = '\0';
        break;
    case ' ':
        it->refresh_now = true;
        break;
    case KEY_UP:
        scroll_by(it, -1);
        break;
    case KEY_DOWN:
        scroll_by(it, 1);
        break;
    case KEY_PPAGE:
        scroll_by(it, -page);
        break;
    case KEY_NPAGE:
        scroll_by(it, page);
        break;
    case KEY_HOME:
        it->view.top = 0;
        break;
    case KEY_END:
        it->view.top = it->top_max;
        break;
    default:
        (void)is_order(it, key);
    }
}

/* Wait for a key, the time, or a signal. A change of the terminal's size may arrive just before poll(), so do not wait
 * longer than a second. */
static void wait_for_key(screen *it, uint64_t until_ns)
{
    enum { WAIT_MS_MAX = 1000 };
    struct pollfd waited[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = gwi_watch_stop_fd(), .events = POLLIN}};
    uint64_t now_ns = gw_monotonic_ns(), ms = until_ns > now_ns ? (until_ns - now_ns) / 1000000 + 1 : 0;
    if (poll(waited, 2, ms < WAIT_MS_MAX ? (int)ms : WAIT_MS_MAX) <= 0)
        return;
    if ((waited[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0)
        it->quit = true; /* the terminal is gone, and SIGHUP is ignored */
}

/* Take keys until the next refresh is due. */
static void take_keys(screen *it, const gw_watch_snapshot *snapshot, uint64_t until_ns)
{
    it->refresh_now = false;
    timeout(0);
    while (!it->quit && !it->refresh_now && !gwi_watch_is_stopped() && gw_monotonic_ns() < until_ns) {
        int key = getch();
        if (key == ERR) {
            wait_for_key(it, until_ns);
            continue;
        }
        take_key(it, key);
        draw(it, snapshot);
    }
}

/* ---- the loop ---- */

static gw_status run(gw_watch *watch, screen *it, gw_error *err)
{
    gw_status st = GW_OK;
    while (st == GW_OK && !it->quit && !gwi_watch_is_stopped()) {
        const gw_watch_snapshot *snapshot;
        uint64_t began_ns = gw_monotonic_ns();
        st = gw_watch_look(watch, &snapshot, err);
        if (st != GW_OK)
            break;
        draw(it, snapshot);
        take_keys(it, snapshot, began_ns + it->view.interval_s * UINT64_C(1000000000));
    }
    return st;
}

gw_status gwi_watch_screen(gw_watch *watch, unsigned interval_s, gw_error *err)
{
    screen it = {.view = {.interval_s = interval_s}};
    it.view.filter = it.filter;
    setlocale(LC_CTYPE, ""); /* only for characters: numbers keep their point */
    const char *terminal = getenv("TERM");
    SCREEN *made = gwi_terminal_is_dumb() ? NULL : newterm(NULL, stdout, stdin);
    if (made == NULL)
        return gw_fail(err, GW_UNSUPPORTED,
                       "the terminal \"%s\" is not known here, or cannot move its cursor; --once prints plain text",
                       terminal == NULL ? "" : terminal);
    set_escdelay(50);
    it.colour = begin_colours();
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    mvaddstr(0, 0, "gpuwhy watch: reading the cards");
    refresh();
    gw_status st = run(watch, &it, err);
    endwin();
    delscreen(made);
    return st;
}

#else

gw_status gwi_watch_screen(gw_watch *watch, unsigned interval_s, gw_error *err)
{
    (void)watch;
    (void)interval_s;
    return gw_fail(err, GW_UNSUPPORTED,
                   "this build has no full-screen view, because ncurses was missing; use --once or --json");
}

#endif
