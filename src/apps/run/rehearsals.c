/* Rehearses the program of `gpuwhy run --rescue` with other values, and chooses the largest that fit. */
#include "gwi_rehearsals.h"

#include "gw_array.h"
#include "gw_json.h"
#include "gw_say.h"
#include "gwi_options.h"
#include "gwi_temporary.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum answer { FITS_NOT, FITS, UNKNOWN } answer;

/* ---- one rehearsal ---- */

enum { WORDS_MAX = 32 };
/* A rehearsal may take TIME_LEAST_MS and four times as long as the failed attempt: ranks may wait for ever. */
enum { TIME_LEAST_MS = 120000, TIME_MOST_MS = 3600000 };

static size_t add_options(const gw_run_options *options, char memory[32], const char **word)
{
    static const char *const first[] = {"gpuwhy", "rehearse",     "--once",     "--until",
                                        "steady", "--no-history", "--no-sites", "--end-with-parent"};
    size_t count = sizeof first / sizeof first[0];
    memcpy(word, first, sizeof first);
    word[count++] = "--gpu";
    word[count++] = options->gpu;
    if (options->memory_bytes != 0) {
        snprintf(memory, 32, "%" PRIu64, options->memory_bytes);
        word[count++] = "--memory";
        word[count++] = memory;
    }
    if (options->no_attach)
        word[count++] = "--no-attach";
    count += gwi_add_folder(word + count);
    word[count++] = "--json";
    word[count++] = "/dev/fd/3"; /* GW_ASIDE_OUT_FD */
    word[count++] = "--";
    return count;
}

static answer read_answer(const char *path)
{
    json_object *root = json_object_from_file(path);
    json_object *fits = gw_json_member(gw_json_member(root, "rehearsal"), "fits");
    answer it = fits == NULL ? UNKNOWN : json_object_get_boolean(fits) ? FITS : FITS_NOT;
    json_object_put(root);
    return it;
}

/* The folder of the checkpoints: what stands before the first wildcard of the pattern. */
static bool find_folder(const char *pattern, gw_path out)
{
    gw_path start;
    snprintf(start, sizeof start, "%.*s", (int)strcspn(pattern, "*?["), pattern);
    char *slash = strrchr(start, '/');
    if (slash == NULL)
        return false;
    slash[slash == start] = '\0';
    return realpath(start, out) != NULL;
}

/* The rehearsed program must not leave files that an attempt then reads, such as checkpoints of zeros. */
static bool run_aside(const gwi_rescue *rescue, gw_supervisor *run, char *const *argv, const char *scratch, int out_fd)
{
    const char *pattern = rescue->options->checkpoints, *home = getenv("HOME"), *temporary = getenv("TMPDIR");
    gw_path path[GW_ASIDE_FOLDERS_MAX];
    bool has[GW_ASIDE_FOLDERS_MAX] = {home != NULL && realpath(home, path[0]) != NULL,
                                      realpath(temporary == NULL ? "/tmp" : temporary, path[1]) != NULL,
                                      getcwd(path[2], sizeof path[2]) != NULL,
                                      pattern != NULL && find_folder(pattern, path[3])};
    gw_aside aside = {.scratch = scratch, .out_fd = out_fd, .may_fail = rescue->may_write};
    double ms = TIME_LEAST_MS + rescue->attempt_seconds * 4000;
    for (size_t i = 0; i < GW_ASIDE_FOLDERS_MAX; i++)
        aside.folder[i] = has[i] ? path[i] : NULL;
    return gw_supervisor_run_self(run, argv, &aside, ms < TIME_MOST_MS ? (unsigned)ms : TIME_MOST_MS);
}

/* Start it with an open file for the verdict. */
static answer run_and_read(const gwi_rescue *rescue, gw_supervisor *run, char *const *argv, const char *folder)
{
    gw_path json, scratch;
    bool good = gw_path_format(json, NULL, "%s/rehearsal.json", folder) == GW_OK &&
                gw_path_format(scratch, NULL, "%s/aside", folder) == GW_OK && mkdir(scratch, 0700) == 0;
    int fd = good ? open(json, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    answer it = fd >= 0 && run_aside(rescue, run, argv, scratch, fd) ? read_answer(json) : UNKNOWN;
    if (fd >= 0)
        close(fd);
    return it;
}

/* Rehearse the program with the values in use. */
static answer rehearse(const gwi_rescue *rescue, gw_supervisor *run)
{
    const char *word[WORDS_MAX];
    char memory[32];
    gwi_temporary folder;
    gwi_command command = {0};
    answer it = UNKNOWN;
    if (!gwi_rescue_command(rescue, &command))
        return UNKNOWN;
    size_t count = add_options(rescue->options, memory, word);
    char **argv = calloc(count + command.count + 1, sizeof *argv);
    if (argv != NULL && gwi_temporary_make("rescue", &folder, NULL) == GW_OK) {
        for (size_t i = 0; i < count; i++)
            argv[i] = (char *)(uintptr_t)word[i]; /* execv() changes no argument */
        memcpy(argv + count, command.argv, command.count * sizeof *argv);
        it = run_and_read(rescue, run, argv, folder.path);
        gwi_temporary_remove(&folder);
    }
    free(argv);
    gwi_command_free(&command);
    return it;
}

bool gwi_rehearsal_lacks_memory(const gwi_rescue *rescue, gw_supervisor *run)
{
    return !rescue->has_checkpoint && rehearse(rescue, run) == FITS_NOT;
}

/* ---- the numbers that may be tried ---- */

/* Ascending. */
typedef struct candidates {
    uint64_t *number; /* owned */
    size_t count, capacity;
} candidates;

static bool add_candidate(candidates *list, uint64_t number)
{
    if (!gw_array_room(&list->number, list->count, &list->capacity, sizeof *list->number))
        return false;
    list->number[list->count++] = number;
    return true;
}

/* With {steps}, the product of both stays the same: the batch must divide it. */
static candidates divisors_below(uint64_t product, uint64_t limit)
{
    enum { TRIED_MAX = 1 << 20 };
    candidates list = {0};
    for (uint64_t i = 1; i < limit && i <= TRIED_MAX; i++)
        if (product % i == 0 && !add_candidate(&list, i))
            break;
    return list;
}

static candidates multiples_below(uint64_t step, uint64_t limit)
{
    enum { COUNT_MAX = 1 << 20 };
    candidates list = {0};
    for (uint64_t i = step; i < limit && list.count < COUNT_MAX; i += step)
        if (!add_candidate(&list, i))
            break;
    return list;
}

static candidates batches_below(gwi_rescue *rescue, uint64_t limit)
{
    const gwi_place *batch = gwi_places_find(&rescue->places, "batch");
    const gwi_place *steps = gwi_places_find(&rescue->places, "steps");
    return steps == NULL ? multiples_below(1, limit) : divisors_below(batch->number * steps->number, limit);
}

/* Use another batch, and as many steps as keep the product. */
static bool use_batch(gwi_rescue *rescue, uint64_t number)
{
    gwi_place *batch = gwi_places_find(&rescue->places, "batch");
    gwi_place *steps = gwi_places_find(&rescue->places, "steps");
    uint64_t product = steps == NULL ? 0 : batch->number * steps->number;
    return gwi_place_set(batch, number) && (steps == NULL || gwi_place_set(steps, product / number));
}

static bool use_size(gwi_rescue *rescue, uint64_t number)
{
    return gwi_place_set(gwi_places_find(&rescue->places, "size"), number);
}

/* Find the largest candidate that fits, and use it. */
static answer search(gwi_rescue *rescue, gw_supervisor *run, const candidates *list,
                     bool (*use)(gwi_rescue *, uint64_t))
{
    size_t low = 0, high = list->count; /* those below `low` fit, and those from `high` on do not */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        answer it = use(rescue, list->number[middle]) ? rehearse(rescue, run) : UNKNOWN;
        if (it == UNKNOWN)
            return UNKNOWN;
        if (it == FITS)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return FITS_NOT;
    rescue->rehearsed = list->number[low - 1];
    rescue->rehearsed_next = low < list->count ? list->number[low] : 0;
    return use(rescue, rescue->rehearsed) ? FITS : UNKNOWN;
}

/* ---- the values as they were ---- */

typedef struct kept {
    uint64_t number[GWI_PLACES_MAX];
    size_t now[GWI_PLACES_MAX];
    char *value[GWI_PLACES_MAX]; /* owned; in use */
} kept;

static void forget(kept *it)
{
    for (size_t i = 0; i < GWI_PLACES_MAX; i++)
        free(it->value[i]);
}

static kept keep(const gwi_places *places)
{
    kept it = {0};
    for (size_t i = 0; i < places->count; i++) {
        const gwi_place *place = &places->place[i];
        it.number[i] = place->number;
        it.now[i] = place->now;
        it.value[i] = strdup(place->value[place->now]);
    }
    return it;
}

static void go_back(gwi_places *places, const kept *it)
{
    for (size_t i = 0; i < places->count; i++) {
        places->place[i].now = it->now[i];
        if (places->place[i].is_number)
            (void)gwi_place_set(&places->place[i], it->number[i]);
    }
}

static void say_changes(const gwi_places *places, const kept *it, gwi_rescued *rescued)
{
    for (size_t i = 0; i < places->count; i++) {
        const gwi_place *place = &places->place[i];
        if (it->value[i] != NULL && strcmp(it->value[i], place->value[place->now]) != 0)
            gwi_place_say(place, it->value[i], &rescued->change);
    }
}

static void say_proof(const gwi_rescue *rescue, gwi_rescued *rescued)
{
    gw_text_add_str(&rescued->proof, "rehearsed: ");
    if (rescue->rehearsed != 0)
        gw_text_addf(&rescued->proof, "%" PRIu64 " ", rescue->rehearsed);
    gw_text_add_str(&rescued->proof, "fits");
    if (rescue->rehearsed_next != 0)
        gw_text_addf(&rescued->proof, ", %" PRIu64 " does not", rescue->rehearsed_next);
}

/* ---- the choice ---- */

static bool has_next(const gwi_place *place)
{
    return !place->is_number && place->now + 1 < place->count;
}

/* Use the next value of the first list that has one left. */
static bool next_value(gwi_places *places)
{
    for (size_t i = 0; i < places->count; i++)
        if (has_next(&places->place[i])) {
            places->place[i].now++;
            return true;
        }
    return false;
}

/* Rehearse the present values of the lists with the largest batch that fits. `limit`: batches below it may be tried. */
static answer find_batch(gwi_rescue *rescue, gw_supervisor *run, uint64_t limit)
{
    candidates list = batches_below(rescue, limit);
    answer it = search(rescue, run, &list, use_batch);
    free(list.number);
    return it;
}

static answer find_size(gwi_rescue *rescue, gw_supervisor *run)
{
    enum { STEP = 32 };
    gwi_place *size = gwi_places_find(&rescue->places, "size");
    if (size == NULL)
        return FITS_NOT;
    candidates list = multiples_below(size->number > STEP ? STEP : 1, size->number);
    answer it = search(rescue, run, &list, use_size);
    free(list.number);
    return it;
}

/* First a smaller batch, then the next value of a list with the largest batch that then fits, then a smaller size. */
static answer by_rehearsals(gwi_rescue *rescue, gw_supervisor *run)
{
    const gwi_place *batch = gwi_places_find(&rescue->places, "batch");
    const uint64_t whole = batch == NULL ? 0 : batch->number;
    if (rehearse(rescue, run) != FITS_NOT)
        return UNKNOWN; /* a rehearsal does not show the failure */
    answer it = batch == NULL ? FITS_NOT : find_batch(rescue, run, whole);
    while (it == FITS_NOT && (batch == NULL || use_batch(rescue, whole)) && next_value(&rescue->places))
        it = batch == NULL ? rehearse(rescue, run) : find_batch(rescue, run, whole + 1);
    return it == FITS_NOT ? find_size(rescue, run) : it;
}

/* The largest candidate that is not above `most`, or 0. */
static uint64_t largest_to(const candidates *list, uint64_t most)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < list->count && list->number[i] <= most; i++)
        largest = list->number[i];
    return largest;
}

/* Without a rehearsal: half the batch, or the next value, or three quarters of the size. What a rehearsal has shown to
 * fit, and failed for real, needs only an eighth less. */
static bool by_trial(gwi_rescue *rescue)
{
    gwi_place *batch = gwi_places_find(&rescue->places, "batch"), *size = gwi_places_find(&rescue->places, "size");
    if (batch != NULL && batch->number > 1) {
        bool was_rehearsed = rescue->rehearsed == batch->number;
        candidates list = batches_below(rescue, batch->number);
        uint64_t number = largest_to(&list, was_rehearsed ? batch->number - batch->number / 8 : batch->number / 2);
        free(list.number);
        if (number > 0)
            return use_batch(rescue, number);
    }
    if (next_value(&rescue->places))
        return true;
    return size != NULL && size->number > 32 && use_size(rescue, size->number * 3 / 4 / 32 * 32);
}

static bool can_shrink(gwi_places *places)
{
    static const char *const names[] = {"batch", "size"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const gwi_place *place = gwi_places_find(places, names[i]);
        if (place != NULL && place->number > 1)
            return true;
    }
    for (size_t i = 0; i < places->count; i++)
        if (has_next(&places->place[i]))
            return true;
    return false;
}

bool gwi_numbers_change(gwi_rescue *rescue, gw_supervisor *run, gwi_rescued *rescued)
{
    kept before = keep(&rescue->places);
    answer it = UNKNOWN;
    bool can = can_shrink(&rescue->places);
    rescued->why_not = "the command has no value left that gpuwhy may change, such as {batch:256}";
    if (can && !rescue->has_checkpoint && rescue->rehearsed == 0) {
        gw_say("rehearsing the program with other values");
        it = by_rehearsals(rescue, run);
    }
    if (it == FITS_NOT)
        rescued->why_not = "no value of the placeholders fits, as rehearsals show";
    if (it != FITS)
        go_back(&rescue->places, &before);
    bool changed = it == FITS || (it == UNKNOWN && can && by_trial(rescue));
    say_changes(&rescue->places, &before, rescued);
    forget(&before);
    if (changed && it == UNKNOWN)
        gw_text_add_str(&rescued->proof, rescue->has_checkpoint || rescue->rehearsed != 0
                                             ? "by trial"
                                             : "by trial: no rehearsal shows the failure");
    else if (changed)
        say_proof(rescue, rescued);
    return changed;
}
