/* Fuzz the conversion of call sites to stacks. In a damaged or hostile recording, the events and names may come in any
 * order. */
#include "gw_sites.h"
#include "gwi_inner.h"
#include "inputs.h"

static volatile uint64_t sink;

/* Replaces the function of the same name in elf.c, so that no file is read. */
void gwi_symbols_read(const gw_symbol *symbols, size_t count, const uint8_t *avoid, uint64_t begun_realtime_ns,
                      uint64_t deadline_ns, const gwi_listener *listener)
{
    (void)symbols;
    (void)avoid;
    (void)begun_realtime_ns;
    (void)deadline_ns;
    for (size_t i = 0; i < count; i++)
        listener->found(listener->user, i, GW_SYMBOL_UNSUPPORTED, NULL, 0);
}

static uint64_t take(const uint8_t **at, const uint8_t *end, size_t bytes)
{
    uint64_t value = 0;
    size_t count = (size_t)(end - *at) < bytes ? (size_t)(end - *at) : bytes;
    memcpy(&value, *at, count);
    *at += count;
    return value;
}

/* Read a length byte and a text of up to 63 bytes. It gets its own heap block, so that the sanitizer detects reads
 * beyond its end. */
static char *take_text(const uint8_t **at, const uint8_t *end, uint32_t *ret_bytes)
{
    size_t bytes = take(at, end, 1) % 64;
    bytes = (size_t)(end - *at) < bytes ? (size_t)(end - *at) : bytes;
    char *text = malloc(bytes + 1);
    if (text == NULL)
        abort();
    memcpy(text, *at, bytes);
    text[bytes] = '\0';
    *at += bytes;
    *ret_bytes = (uint32_t)bytes;
    return text;
}

static void feed_event(gw_sites *sites, const uint8_t **at, const uint8_t *end)
{
    static const uint8_t kinds[] = {GW_EV_SITE,        GW_EV_SITE_FRAMES,  GW_EV_MAPPED,
                                    GW_EV_PYTHON_CODE, GW_EV_PYTHON_LINES, GW_EV_FORK};
    gw_event event = {.kind = kinds[take(at, end, 1) % sizeof kinds]};
    event.pid = (uint32_t)take(at, end, 1) % 4;
    static const uint8_t widths[] = {1, 1, 2, 4, 8};
    for (int i = 0; i < 4; i++)
        event.arg[i] = take(at, end, widths[take(at, end, 1) % sizeof widths]);
    char *text = take_text(at, end, &event.text_bytes);
    event.text = event.text_bytes == 0 ? NULL : text;
    if (!gw_sites_feed_event(sites, &event))
        abort();
    free(text);
}

static void feed_symbol(gw_sites *sites, const uint8_t **at, const uint8_t *end)
{
    uint32_t bytes;
    char *path = take_text(at, end, &bytes), *function = take_text(at, end, &bytes), *file = take_text(at, end, &bytes);
    uint32_t line = (uint32_t)take(at, end, 4);
    gw_symbol_frame frame[2] = {{function, file, line, ~line}, {NULL, NULL, 0, 0}};
    gw_item item = {.kind = GW_ITEM_SYMBOL,
                    .symbol = {path, take(at, end, 1), take(at, end, 2), (uint8_t)take(at, end, 1), frame,
                               (uint32_t)take(at, end, 1) % 3}};
    if (!gw_sites_feed(sites, &item))
        abort();
    free(path);
    free(function);
    free(file);
}

static void feed_pair(gw_sites *sites, const uint8_t **at, const uint8_t *end)
{
    static const char *const keys[] = {"argv", "cwd", "start_realtime_ns"};
    uint32_t bytes;
    char *value = take_text(at, end, &bytes);
    gw_item item = {.kind = GW_ITEM_META, .pair = {keys[take(at, end, 1) % 3], value}};
    if (!gw_sites_feed(sites, &item))
        abort();
    free(value);
}

static void feed_process(gw_sites *sites, const uint8_t **at, const uint8_t *end)
{
    uint32_t bytes;
    char *exe = take_text(at, end, &bytes);
    gw_item item = {.kind = GW_ITEM_PROCESS, .pid = (uint32_t)take(at, end, 1) % 4};
    item.process.exe = exe;
    item.process.start_realtime_ns = take(at, end, 1);
    if (!gw_sites_feed(sites, &item))
        abort();
    free(exe);
}

static void look(gw_sites *sites)
{
    char text[GW_PLACE_TEXT_MAX];
    for (uint32_t number = 0; number <= gw_sites_count(sites) && number < 64; number++) {
        const gw_stack *stack = gw_sites_stack(sites, number);
        if (stack == NULL)
            continue;
        for (size_t i = 0; i < stack->count; i++)
            sink += strlen(gw_frame_text(sites, &stack->frame[i], text)) + stack->frame[i].line;
        if (stack->user > stack->count ||
            (stack->user < stack->count && stack->frame[stack->user].whose >= GW_WHOSE_RUNTIME))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static void (*const feeders[])(gw_sites *, const uint8_t **, const uint8_t *) = {
        feed_event, feed_event, feed_event, feed_event, feed_symbol, feed_pair, feed_process};
    const uint8_t *at = data, *end = data + bytes;
    gw_sites *sites = gw_sites_new();
    if (sites == NULL)
        return 0;
    while (at < end)
        feeders[take(&at, end, 1) % (sizeof feeders / sizeof feeders[0])](sites, &at, end);
    look(sites);
    gw_sites_free(sites);
    return 0;
}
