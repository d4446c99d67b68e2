/* Derive the traits of a run from its model. Only this file decides which traits matter in a comparison. */
#include "gwi_compare.h"

#include "gw_array.h"
#include "gw_logs.h"
#include "gw_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sizes and counts are treated as equal if they differ by at most 5 % of the larger one, because threads and caches
 * change them in every run. */
static const double counts_tolerance = 0.05, exact = 0;
enum { ROWS_MAX = 256, SHORT_ID_BYTES = 12 };

GW_WORDS(gw_area_text, gw_area, GW_AREAS, "?")

void gwi_traits_free(gwi_traits *traits)
{
    for (size_t i = 0; i < traits->count; i++) {
        free(traits->item[i].name);
        free(traits->item[i].text);
    }
    free(traits->item);
    *traits = (gwi_traits){0};
}

/* ---- adding ---- */

/* A run has a few hundred traits. A damaged recording may have any number, so traits beyond this limit are dropped. */
enum { TRAITS_MAX = 4096 };

gw_trait *gwi_trait_find(const gwi_traits *traits, gw_area area, const char *name)
{
    for (size_t i = 0; i < traits->count; i++)
        if (traits->item[i].area == area && strcmp(traits->item[i].name, name) == 0)
            return &traits->item[i];
    return NULL;
}

/* Add a trait, or append `text` to an existing one that has at most TEXT_BYTES_MAX bytes. Returns NULL if out of
 * memory, or if there are too many traits. */
static gw_trait *add(gwi_traits *traits, gw_area area, const char *name, const char *text)
{
    enum { TEXT_BYTES_MAX = 16384 };
    if (traits->count == TRAITS_MAX)
        return NULL;
    gw_trait *old = gwi_trait_find(traits, area, name);
    if (old != NULL && strlen(old->text) > TEXT_BYTES_MAX)
        return old;
    if (old != NULL) {
        gw_text both = {0};
        gw_text_addf(&both, "%s; %s", old->text, text);
        traits->failed = traits->failed || both.failed;
        if (!both.failed) {
            free(old->text);
            old->text = both.data;
        }
        return old;
    }
    if (!gw_array_room(&traits->item, traits->count, &traits->capacity, sizeof *traits->item)) {
        traits->failed = true;
        return NULL;
    }
    gw_trait *trait = &traits->item[traits->count];
    *trait = (gw_trait){.area = area, .matters = true, .unit = "", .lack_matters = true};
    trait->name = strdup(name);
    trait->text = strdup(text);
    if (trait->name == NULL || trait->text == NULL) {
        free(trait->name);
        free(trait->text);
        traits->failed = true;
        return NULL;
    }
    traits->count++;
    return trait;
}

__attribute__((format(printf, 4, 5))) static gw_trait *addf(gwi_traits *traits, gw_area area, const char *name,
                                                            const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return add(traits, area, name, text);
}

/* make_light(): a difference in this trait does not matter. make_optional(): the absence of this trait does not matter.
 * `trait` may be NULL. */
static void make_light(gw_trait *trait)
{
    if (trait != NULL)
        trait->matters = false;
}

static void make_optional(gw_trait *trait)
{
    if (trait != NULL)
        trait->lack_matters = false;
}

static gw_trait *add_number(gwi_traits *traits, gw_area area, const char *name, double value, const char *unit,
                            double tolerance)
{
    char bytes[GW_BYTES_TEXT_MAX], text[48];
    if (strcmp(unit, "bytes") == 0)
        snprintf(text, sizeof text, "%s", gw_bytes_text(bytes, (uint64_t)value));
    else if (strcmp(unit, "s") == 0)
        snprintf(text, sizeof text, "%.2f s", value);
    else
        snprintf(text, sizeof text, "%.0f%s%s", value, unit[0] == '\0' || strcmp(unit, "count") == 0 ? "" : " ",
                 strcmp(unit, "count") == 0 ? "" : unit);
    bool is_more = traits->count < TRAITS_MAX && gwi_trait_find(traits, area, name) == NULL;
    gw_trait *trait = is_more ? add(traits, area, name, text) : NULL;
    if (trait != NULL) {
        trait->has_value = true;
        trait->value = value;
        trait->unit = unit;
        trait->tolerance = tolerance;
    }
    return trait;
}

/* ---- command, environment, host: recorded by the supervisor at the start ---- */

/* True for variables that a scheduler, a launcher or gpuwhy itself sets to a new value for each run. */
static bool is_passing(const char *variable)
{
    static const char *const beginnings[] = {"SLURM_",  "OMPI_",   "PMI_",           "PMIX_",          "TORCHELASTIC_",
                                             "MASTER_", "GPUWHY_", "CUDA_COREDUMP_", "NVIDIA_PRODUCT", "CUDA_MPS_LOG"};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (gw_begins(variable, beginnings[i]))
            return true;
    return false;
}

static void add_meta(gwi_traits *traits, const char *key, const char *value, gw_text *command)
{
    static const struct {
        const char *key;
        gw_area area;
        const char *name;
        bool matters;
    } rows[] = {{"cwd", GW_AREA_COMMAND, "folder", true},
                {"version", GW_AREA_COMMAND, "gpuwhy", false},
                {"driver", GW_AREA_DRIVER, "file", true},
                {"driver.module", GW_AREA_DRIVER, "kernel module", true},
                {"device.files", GW_AREA_CARD, "device files", true},
                {"host", GW_AREA_HOST, "name", false},
                {"kernel", GW_AREA_HOST, "Linux", false},
                {"machine", GW_AREA_HOST, "processor", true}};
    if (strcmp(key, "argv") == 0) {
        gw_text_addf(command, "%s%s", command->bytes == 0 ? "" : " ", value);
    } else if (gw_begins(key, "env.")) {
        gw_trait *trait = add(traits, GW_AREA_ENVIRONMENT, key + 4, value);
        if (is_passing(key + 4))
            make_light(trait);
    } else if (gw_begins(key, "option.")) {
        add(traits, GW_AREA_COMMAND, key, value);
    } else if (gw_begins(key, "rlimit.")) {
        add(traits, GW_AREA_HOST, key, value);
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(key, rows[i].key) != 0)
            continue;
        gw_trait *trait = add(traits, rows[i].area, rows[i].name, value);
        if (!rows[i].matters)
            make_light(trait);
    }
}

static void add_metas(gwi_traits *traits, const gw_model *model)
{
    gw_text command = {0};
    for (size_t i = 0; i < model->meta_count; i++)
        if (model->meta[i].key != NULL && model->meta[i].value != NULL)
            add_meta(traits, model->meta[i].key, model->meta[i].value, &command);
    if (command.bytes > 0)
        add(traits, GW_AREA_COMMAND, "line", gw_text_str(&command));
    traits->failed = traits->failed || command.failed;
    gw_text_free(&command);
}

/* ---- driver and libraries ---- */

static void add_driver(gwi_traits *traits, const gw_model *model)
{
    for (size_t i = 0; i < model->process_count; i++) {
        const gw_process *process = &model->process[i];
        if (process->driver_api != 0 && gwi_trait_find(traits, GW_AREA_DRIVER, "CUDA") == NULL)
            make_optional(addf(traits, GW_AREA_DRIVER, "CUDA", "%u.%u", process->driver_api / 1000,
                               process->driver_api % 1000 / 10));
        if (process->driver_build_id != NULL && process->driver_build_id[0] != '\0' &&
            gwi_trait_find(traits, GW_AREA_DRIVER, "build") == NULL)
            make_optional(addf(traits, GW_AREA_DRIVER, "build", "%.*s", SHORT_ID_BYTES, process->driver_build_id));
    }
}

typedef struct listed_library {
    const gw_library *library;
    size_t place; /* position among all libraries of the run, in loading order */
} listed_library;

static int by_path(const void *left, const void *right)
{
    const listed_library *a = left, *b = right;
    int order = strcmp(a->library->path, b->library->path);
    return order != 0 ? order : (a->place > b->place) - (a->place < b->place);
}

static int by_place(const void *left, const void *right)
{
    const listed_library *a = left, *b = right;
    return (a->place > b->place) - (a->place < b->place);
}

/* List each library of the run once, in the order of loading. The caller frees the list. The driver is left out,
 * because it has its own traits. So is gpuwhy's facade, which has the driver's file name. */
static listed_library *list_libraries(const gw_model *model, size_t *ret_count)
{
    size_t room = 0, count = 0, kept = 0;
    for (size_t p = 0; p < model->process_count; p++)
        room += model->process[p].libraries.count;
    listed_library *list = room == 0 ? NULL : malloc(room * sizeof *list);
    *ret_count = 0;
    if (list == NULL)
        return NULL;
    for (size_t p = 0; p < model->process_count; p++)
        for (size_t i = 0; i < model->process[p].libraries.count; i++) {
            const gw_library *library = &model->process[p].libraries.item[i];
            if (library->kind != GW_LIBRARY_DRIVER && library->path != NULL) {
                list[count] = (listed_library){library, count};
                count++;
            }
        }
    qsort(list, count, sizeof *list, by_path);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(list[kept - 1].library->path, list[i].library->path) != 0)
            list[kept++] = list[i];
    qsort(list, kept, sizeof *list, by_place);
    *ret_count = kept;
    return list;
}

static void add_libraries(gwi_traits *traits, const gw_model *model)
{
    size_t count;
    listed_library *list = list_libraries(model, &count);
    for (size_t i = 0; i < count; i++) {
        const gw_library *library = list[i].library;
        char name[64], version[GW_VERSION_TEXT_MAX];
        snprintf(name, sizeof name, "%s%s%s", gw_library_kind_text(library->kind), library->part[0] == '\0' ? "" : " ",
                 library->part);
        make_optional(
            addf(traits, GW_AREA_LIBRARY, name, "%s, %s", gw_library_version_text(version, library), library->path));
    }
    free(list);
}

/* ---- cards ---- */

static void add_device(gwi_traits *traits, const gw_model *model, int index)
{
    enum { ATTRIBUTE_MAJOR = 75, ATTRIBUTE_MINOR = 76 };
    const gw_device *device = &model->device[index];
    char name[64];
    if (!device->known)
        return;
    snprintf(name, sizeof name, "GPU %d", index);
    if (device->name != NULL)
        make_optional(add(traits, GW_AREA_CARD, name, device->name));
    snprintf(name, sizeof name, "GPU %d memory", index);
    if (device->has_total)
        make_optional(add_number(traits, GW_AREA_CARD, name, (double)device->bytes_total, "bytes", exact));
    snprintf(name, sizeof name, "GPU %d limit", index);
    if (device->has_limit)
        add_number(traits, GW_AREA_CARD, name, (double)device->bytes_limit, "bytes", exact);
    snprintf(name, sizeof name, "GPU %d compute capability", index);
    if (device->has_attribute[ATTRIBUTE_MAJOR] && device->has_attribute[ATTRIBUTE_MINOR])
        make_optional(addf(traits, GW_AREA_CARD, name, "%" PRIu64 ".%" PRIu64, device->attribute[ATTRIBUTE_MAJOR],
                           device->attribute[ATTRIBUTE_MINOR]));
    snprintf(name, sizeof name, "GPU %d free at the start", index);
    if (device->has_total && device->bytes_free_first <= device->bytes_total)
        make_optional(
            add_number(traits, GW_AREA_CARD, name, (double)device->bytes_free_first, "bytes", counts_tolerance));
}

/* Add the settings (GW_METRIC_LEVEL) of cards, control group and host, such as a power limit. The first sampled value
 * is used. */
static void add_settings(gwi_traits *traits, const gw_machine *machine)
{
    for (size_t i = 0; i < machine->series_count; i++) {
        const gw_series *series = &machine->series[i];
        const gw_metric_info *info = gw_metric_find(series->metric);
        if (info == NULL || info->kind != GW_METRIC_LEVEL || series->state != GW_SAMPLE_KNOWN || series->pid != 0 ||
            series->metric == GW_METRIC_CARD_MEMORY_TOTAL) /* "GPU N memory" already shows the total */
            continue;
        char name[96];
        bool of_card = series->device != GW_NO_DEVICE;
        if (of_card)
            snprintf(name, sizeof name, "%s of card %u", info->name, series->device);
        else
            snprintf(name, sizeof name, "%s", info->name);
        gw_area area = of_card ? GW_AREA_CARD : GW_AREA_HOST;
        gw_trait *trait = series->first == UINT64_MAX
                              ? add(traits, area, name, "no limit")
                              : add_number(traits, area, name, (double)series->first, info->unit, exact);
        make_optional(trait);
    }
}

/* Add another process that held memory when an allocation was refused. gpuwhy looks only after a refusal, so runs
 * without this trait may have had one, too. */
static void add_holder(gwi_traits *traits, const gw_fact_holder *holder)
{
    gw_text name = {0};
    if (holder->has_command)
        gw_text_addf(&name, "held by %.*s (pid %" PRIu32 ")",
                     holder->command.bytes > 120 ? 120 : (int)holder->command.bytes, holder->command.data, holder->pid);
    else
        gw_text_addf(&name, "held by pid %" PRIu32, holder->pid);
    if (holder->has_bytes)
        make_optional(
            add_number(traits, GW_AREA_CARD, gw_text_str(&name), (double)holder->bytes, "bytes", counts_tolerance));
    else
        make_optional(add(traits, GW_AREA_CARD, gw_text_str(&name), "an unknown amount"));
    traits->failed = traits->failed || name.failed;
    gw_text_free(&name);
}

static void add_holders(gwi_traits *traits, const gw_model *model)
{
    enum { HOLDERS_MAX = 8 };
    size_t told = 0;
    for (size_t i = 0; i < model->machine.holder_count && told < HOLDERS_MAX; i++) {
        const gw_holder *holder = &model->machine.holder[i];
        if (holder->what != GW_FACT_CARD_HOLDER || !holder->fact.has_pid ||
            gw_model_process(model, holder->fact.pid) != NULL)
            continue; /* the last condition skips processes of the run itself */
        add_holder(traits, &holder->fact);
        told++;
    }
}

/* ---- memory ---- */

typedef struct place_row {
    char *name; /* owned */
    uint64_t largest_bytes, count;
} place_row;

static char *name_of_group(const gw_model *model, const gw_group *group)
{
    char *place = gwi_place_of(model, group->site), call[GW_CALL_TEXT_MAX];
    gw_text text = {0};
    if (place != NULL)
        gw_text_addf(&text, "largest block at %s", place);
    else
        gw_text_addf(&text, "largest block by %s", gw_call_text(call, gw_model_fn_name(model, group->fn)));
    free(place);
    return text.data;
}

static bool is_device_memory(const gw_group *group)
{
    return group->cls <= GW_CLASS_DEVICE_LAST || group->cls == GW_CLASS_MANAGED;
}

static int by_size(const void *left, const void *right)
{
    const place_row *a = left, *b = right;
    return a->largest_bytes > b->largest_bytes ? -1 : a->largest_bytes < b->largest_bytes;
}

/* For each place in the program, add the size of the largest block that it allocated. Places after the first ROWS_MAX
 * are ignored. */
static void add_blocks(gwi_traits *traits, const gw_model *model)
{
    place_row *row = calloc(ROWS_MAX, sizeof *row);
    size_t count = 0;
    traits->failed = traits->failed || row == NULL;
    for (size_t i = 1; row != NULL && i < model->group_count; i++) {
        const gw_group *group = &model->group[i];
        if (!is_device_memory(group) || group->alloc_count == 0)
            continue;
        char *name = name_of_group(model, group);
        size_t at = 0;
        while (at < count && name != NULL && strcmp(row[at].name, name) != 0)
            at++;
        traits->failed = traits->failed || name == NULL;
        if (at == count && count < ROWS_MAX && name != NULL) {
            row[count++] = (place_row){.name = name};
            name = NULL;
        }
        free(name);
        if (at < count) {
            row[at].count += group->alloc_count;
            row[at].largest_bytes = group->bytes > row[at].largest_bytes ? group->bytes : row[at].largest_bytes;
        }
    }
    if (row != NULL)
        qsort(row, count, sizeof *row, by_size);
    for (size_t i = 0; i < count; i++) { /* optional: a run that ended early may not have reached this place */
        make_optional(
            add_number(traits, GW_AREA_MEMORY, row[i].name, (double)row[i].largest_bytes, "bytes", counts_tolerance));
        free(row[i].name);
    }
    free(row);
}

static void add_peaks(gwi_traits *traits, const gw_model *model)
{
    for (int device = 0; device < GW_MODEL_DEVICES_MAX; device++) {
        uint64_t peak = 0;
        char name[64];
        for (size_t i = 0; i < model->process_count; i++) {
            const gw_usage *usage = &model->process[i].usage[device];
            peak = usage->used && usage->peak_bytes > peak ? usage->peak_bytes : peak;
        }
        snprintf(name, sizeof name, "peak on GPU %d", device);
        if (peak > 0)
            add_number(traits, GW_AREA_MEMORY, name, (double)peak, "bytes", counts_tolerance);
    }
    uint64_t framework = 0;
    for (size_t i = 0; i < model->allocator_count; i++) {
        const gw_allocator_report *report = &model->allocator[i];
        if (report->has_field[GW_ALLOCATOR_ALLOCATED_PEAK] && report->field[GW_ALLOCATOR_ALLOCATED_PEAK] > framework)
            framework = report->field[GW_ALLOCATOR_ALLOCATED_PEAK];
    }
    if (framework > 0)
        make_optional(add_number(traits, GW_AREA_MEMORY, "peak in the framework's allocator", (double)framework,
                                 "bytes", counts_tolerance));
}

/* ---- work and end ---- */

static void add_work(gwi_traits *traits, const gw_model *model)
{
    uint64_t launches = 0, allocations = 0;
    size_t processes = 0;
    for (size_t i = 0; i < model->process_count; i++) {
        const gw_process *process = &model->process[i];
        launches += gw_launches(process->counter);
        processes += process->init_ok;
        for (int device = 0; device < GW_MODEL_DEVICES_MAX; device++)
            allocations += process->usage[device].alloc_count_total;
    }
    add_number(traits, GW_AREA_WORK, "launches", (double)launches, "count", counts_tolerance);
    add_number(traits, GW_AREA_WORK, "allocations", (double)allocations, "count", counts_tolerance);
    add_number(traits, GW_AREA_WORK, "processes on the GPU", (double)processes, "count", exact);
    make_light(add_number(traits, GW_AREA_WORK, "time", (double)model->t_end_ns / 1e9, "s", 0.1));
}

static const gw_failure *first_failure(const gw_model *model)
{
    for (size_t i = 0; i < model->failure_count; i++) {
        const gw_failure *failure = &model->failure[i];
        if (!failure->is_probe && !failure->is_echo && failure->recovery == GW_RECOVERED_NOT)
            return failure;
    }
    return NULL;
}

static void add_end(gwi_traits *traits, const gw_model *model)
{
    char call[GW_CALL_TEXT_MAX];
    const gw_process *command = model->command;
    if (command == NULL || !command->exit_known || !command->exit.status_known)
        make_optional(add(traits, GW_AREA_END, "exit", "unknown"));
    else if (command->exit.signal != 0)
        addf(traits, GW_AREA_END, "exit", "died of signal %d (%s)", command->exit.signal,
             strsignal(command->exit.signal));
    else
        addf(traits, GW_AREA_END, "exit", "exited %d", command->exit.exit_code);
    const gw_failure *failure = first_failure(model);
    if (failure != NULL)
        addf(traits, GW_AREA_END, "first failed call", "%s: %s", gw_call_text(call, failure->fn_name),
             gw_result_name(failure->result));
    if (gw_exception_kind_of(&model->stderr_facts) != GW_EXCEPTION_NONE)
        add(traits, GW_AREA_END, "exception", model->stderr_facts.exception.find->text);
}

/* ---- all traits ---- */

/* Sort the traits by area, and keep their order within an area, which qsort() does not. Insertion sort is fast enough
 * for a few hundred traits. */
static void sort_by_area(gwi_traits *traits)
{
    for (size_t i = 1; i < traits->count; i++) {
        gw_trait moved = traits->item[i];
        size_t at = i;
        for (; at > 0 && traits->item[at - 1].area > moved.area; at--)
            traits->item[at] = traits->item[at - 1];
        traits->item[at] = moved;
    }
}

bool gwi_traits_find(const gw_model *model, gwi_traits *ret_traits)
{
    gwi_traits traits = {0};
    add_metas(&traits, model);
    add_driver(&traits, model);
    add_libraries(&traits, model);
    for (int i = 0; i < GW_MODEL_DEVICES_MAX; i++)
        add_device(&traits, model, i);
    add_settings(&traits, &model->machine);
    add_holders(&traits, model);
    add_peaks(&traits, model);
    add_blocks(&traits, model);
    add_work(&traits, model);
    add_end(&traits, model);
    if (traits.failed) {
        gwi_traits_free(&traits);
        return false;
    }
    sort_by_area(&traits);
    *ret_traits = traits;
    return true;
}
