/* `gpuwhy who`: lists the processes that hold memory on the cards, for people who share a machine. */
#include "gwi_cmd.h"
#include "gwi_manual.h"
#include "gwi_options.h"

#include "gw_say.h"
#include "gw_text.h"
#include "gw_watch.h"

#include <stdio.h>

#define GWI_WHO_OPTIONS(X) X(FLAG, bool, json, "--json", NULL, NULL, "print JSON (docs/json-schema.md)")

GWI_OPTIONS(who_options, GWI_WHO_OPTIONS);

const gwi_manual gwi_manual_who = {
    .usage = "gpuwhy who [--json] [text]\n",
    .about = "Lists each process with memory on a card: user, memory, since when it has not used the card, and how "
             "it was started. With a text, lists only processes whose user, command, pid or way of starting "
             "contains it.",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .exits = {{GW_EXIT_OK, "also if no process uses a card, or if there is no NVML"}, {GW_EXIT_USAGE, "usage error"}},
    .examples = {{"gpuwhy who", "who uses the cards of this machine?"},
                 {"gpuwhy who ann", "only the processes of ann"}},
    .see_also = "watch"};

/* Without a terminal, lines are not cut, so that other programs can read the whole command. */
static void show(const gw_watch_snapshot *snapshot, const char *filter)
{
    const gw_watch_view view = {.filter = filter};
    gw_text text = {0};
    if (snapshot->no_cards_why[0] != '\0')
        gw_say("the cards of this machine cannot be read: %s", snapshot->no_cards_why);
    size_t count = gw_watch_draw_who(snapshot, &view, &text);
    gw_put(gw_text_str(&text));
    if (count == 0 && snapshot->card_count > 0)
        puts(filter[0] == '\0' ? "no process holds memory on a card" : "no process matches");
    gw_text_free(&text);
}

int gwi_cmd_who(int argc, char **argv)
{
    who_options options = {0};
    const gw_watch_options how = {0};
    gw_watch *watch = NULL;
    const gw_watch_snapshot *snapshot = NULL;
    gw_error err = {0};
    gw_text json = {0};
    int first = 0;
    gw_status st = gwi_options_parse(options_table, OPTION_COUNT, &options, argc, argv, &first, &err);
    if (st == GW_OK && options.help)
        return gwi_manual_print(&gwi_manual_who);
    if (st == GW_OK && argc - first > 1)
        st = gw_fail(&err, GW_USAGE, "unexpected word: %s", argv[first + 1]);
    if (st == GW_OK)
        st = gw_watch_open(&how, &watch, &err);
    if (st == GW_OK)
        st = gw_watch_look(watch, &snapshot, &err);
    if (st == GW_OK && options.json)
        st = gw_watch_json_who(snapshot, first < argc ? argv[first] : "", &json, &err);
    if (st == GW_OK && options.json)
        gw_put(gw_text_str(&json));
    else if (st == GW_OK)
        show(snapshot, first < argc ? argv[first] : "");
    gw_text_free(&json);
    gw_watch_close(watch);
    if (st == GW_OK)
        return snapshot == NULL ? GW_EXIT_USAGE : GW_EXIT_OK;
    return gwi_refuse("who", &err);
}
