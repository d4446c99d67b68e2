/* nvidia-smi for the virtual GPU, with only the options that scripts and small libraries use. It is an ordinary client
 * of NVML. Unknown options make it exit with status 2. */
#include "gwi_smi.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EXIT_USAGE_ERROR = 2 };

typedef struct options {
    const char *gpus;      /* --query-gpu */
    const char *processes; /* --query-compute-apps */
    const char *format;
    const char *id;
    const char *loop_s, *loop_ms; /* as given by -l and -lms: interval of repeated output; NULL: not given */
    bool list, details, version, help;
    bool header, units; /* in CSV output, print the header and the units */
} options;

static const char usage[] = "nvidia-smi (of gpuwhy's virtual cards)\n"
                            "    [no option]                          a table\n"
                            "    -L, --list-gpus                      a line for each card\n"
                            "    -q                                   details\n"
                            "    --query-gpu=FIELD,...                values, with --format=csv[,noheader][,nounits]\n"
                            "    --query-compute-apps=FIELD,...       the same for processes: gpu_name, gpu_bus_id, "
                            "gpu_uuid, pid, process_name,\n"
                            "                                         used_memory\n"
                            "    -l SECONDS, -lms MS                  repeat at this interval (--loop, --loop-ms)\n"
                            "    -i ID                                one card: its index, UUID or PCI bus id\n"
                            "    --version, -h, --help\n";

/* --- options -------------------------------------------------------------------------------------------- */

/* Parse "--name=value", "--name value" or "-n value". Returns NULL if the word is another option, or has no value. */
static const char *value_of(const char *name, int argc, char **argv, int *index)
{
    size_t bytes = strlen(name);
    const char *word = argv[*index];
    if (strncmp(word, name, bytes) != 0)
        return NULL;
    if (word[bytes] == '=')
        return word + bytes + 1;
    if (word[bytes] == '\0' && *index + 1 < argc)
        return argv[++*index];
    return NULL;
}

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static bool format_parse(options *asked)
{
    char text[64];
    if (asked->format == NULL || snprintf(text, sizeof text, "%s", asked->format) >= (int)sizeof text)
        return false;
    bool is_csv = false;
    char *rest = text;
    for (char *word = strsep(&rest, ","); word != NULL; word = strsep(&rest, ",")) {
        word += strspn(word, " ");
        if (strcmp(word, "csv") == 0)
            is_csv = true;
        else if (strcmp(word, "noheader") == 0)
            asked->header = false;
        else if (strcmp(word, "nounits") == 0)
            asked->units = false;
        else
            return false;
    }
    return is_csv;
}

static bool parse(int argc, char **argv, options *asked)
{
    static const struct {
        const char *name;
        size_t offset;
    } values[] = {{"--query-gpu", offsetof(options, gpus)},
                  {"--query-compute-apps", offsetof(options, processes)},
                  {"--format", offsetof(options, format)},
                  {"--id", offsetof(options, id)},
                  {"-i", offsetof(options, id)},
                  {"--loop", offsetof(options, loop_s)},
                  {"-l", offsetof(options, loop_s)},
                  {"--loop-ms", offsetof(options, loop_ms)},
                  {"-lms", offsetof(options, loop_ms)}},
      switches[] = {{"-L", offsetof(options, list)},           {"--list-gpus", offsetof(options, list)},
                    {"-q", offsetof(options, details)},        {"--query", offsetof(options, details)},
                    {"--version", offsetof(options, version)}, {"-h", offsetof(options, help)},
                    {"--help", offsetof(options, help)}};
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        bool known = false;
        for (size_t v = 0; v < sizeof values / sizeof *values && !known; v++) {
            const char *value = value_of(values[v].name, argc, argv, &i);
            if (value != NULL)
                *(const char **)((char *)asked + values[v].offset) = value;
            known = value != NULL;
        }
        for (size_t s = 0; s < sizeof switches / sizeof *switches && !known; s++)
            if (strcmp(word, switches[s].name) == 0)
                known = *(bool *)((char *)asked + switches[s].offset) = true;
        if (!known) {
            fprintf(stderr, "Invalid combination of input arguments: %s. Please run 'nvidia-smi -h' for help.\n", word);
            return false;
        }
    }
    if ((asked->loop_s != NULL && !is_number(asked->loop_s)) ||
        (asked->loop_ms != NULL && !is_number(asked->loop_ms))) {
        fprintf(stderr, "the interval is not a number\n");
        return false;
    }
    if ((asked->gpus != NULL || asked->processes != NULL) && !format_parse(asked)) {
        fprintf(stderr, "\"--format=\" must be csv, optionally followed by noheader and nounits.\n");
        return false;
    }
    return true;
}

/* --- cards ---------------------------------------------------------------------------------------------- */

typedef struct cards {
    unsigned count;
    nvmlDevice_t device[32];
} cards;

static int lost(const char *which, nvmlReturn_t result)
{
    fprintf(stderr, "Unable to determine the device handle for GPU%s: %s\n", which, nvmlErrorString(result));
    return (int)result;
}

/* Find the requested GPUs. Returns 0 or the exit status. */
static int cards_find(const char *id, cards *ret)
{
    unsigned count = 0;
    nvmlDeviceGetCount_v2(&count);
    for (unsigned d = 0; d < count && d < 32 && id == NULL; d++) {
        nvmlReturn_t result = nvmlDeviceGetHandleByIndex_v2(d, &ret->device[d]);
        if (result != NVML_SUCCESS) {
            char which[16];
            snprintf(which, sizeof which, "%u", d);
            return lost(which, result);
        }
        ret->count++;
    }
    if (id == NULL)
        return 0;
    unsigned long number = strtoul(id, NULL, 10);
    unsigned index = number < UINT_MAX ? (unsigned)number : UINT_MAX;
    nvmlReturn_t result;
    if (is_number(id))
        result = nvmlDeviceGetHandleByIndex_v2(index, &ret->device[0]);
    else if (strncmp(id, "GPU-", 4) == 0)
        result = nvmlDeviceGetHandleByUUID(id, &ret->device[0]);
    else
        result = nvmlDeviceGetHandleByPciBusId_v2(id, &ret->device[0]);
    ret->count = 1;
    if (result == NVML_ERROR_GPU_IS_LOST)
        return lost(id, result);
    if (result != NVML_SUCCESS)
        fprintf(stderr, "No devices were found\n");
    return result == NVML_SUCCESS ? 0 : NVML_ERROR_NOT_FOUND;
}

static unsigned processes_of(nvmlDevice_t device, nvmlProcessInfo_t processes[GWI_SMI_PROCESSES_MAX])
{
    unsigned count = GWI_SMI_PROCESSES_MAX;
    nvmlReturn_t result = nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes);
    return result == NVML_SUCCESS ? count : 0;
}

static void process_name(unsigned pid, char out[GWI_SMI_VALUE_MAX])
{
    if (nvmlSystemGetProcessName(pid, out, GWI_SMI_VALUE_MAX) != NVML_SUCCESS)
        snprintf(out, GWI_SMI_VALUE_MAX, "[Not Found]");
}

/* --- CSV ------------------------------------------------------------------------------------------------ */

static void put(unsigned column, const char *value, const char *unit)
{
    printf("%s%s", column > 0 ? ", " : "", value);
    if (unit != NULL && value[0] != '[')
        printf(" %s", unit);
}

static int query_gpus(const options *asked, const cards *found)
{
    char names[2048];
    const gwi_smi_field *columns[GWI_SMI_COLUMNS_MAX];
    const char *called[GWI_SMI_COLUMNS_MAX];
    unsigned count = 0;
    snprintf(names, sizeof names, "%s", asked->gpus);
    char *rest = names;
    for (char *word = strsep(&rest, ","); word != NULL && count < GWI_SMI_COLUMNS_MAX; word = strsep(&rest, ",")) {
        word += strspn(word, " ");
        called[count] = word;
        columns[count] = gwi_smi_field_find(word);
        if (columns[count++] == NULL) {
            printf("Field \"%s\" is not a valid field to query.\n\n", word);
            return EXIT_USAGE_ERROR;
        }
    }
    for (unsigned c = 0; c < count && asked->header; c++)
        printf(columns[c]->unit != NULL ? "%s%s [%s]" : "%s%s", c > 0 ? ", " : "", called[c], columns[c]->unit);
    printf("%s", asked->header ? "\n" : "");
    for (unsigned d = 0; d < found->count; d++) {
        for (unsigned c = 0; c < count; c++) {
            char value[GWI_SMI_VALUE_MAX];
            gwi_smi_value(columns[c], found->device[d], value);
            put(c, value, asked->units ? columns[c]->unit : NULL);
        }
        printf("\n");
    }
    return 0;
}

/* Write a process's value of one column. Returns false if there is no such column. */
static bool process_value(const char *name, nvmlDevice_t device, const nvmlProcessInfo_t *process, char *out)
{
    if (strcmp(name, "pid") == 0)
        snprintf(out, GWI_SMI_VALUE_MAX, "%u", process->pid);
    else if (strcmp(name, "process_name") == 0 || strcmp(name, "name") == 0)
        process_name(process->pid, out);
    else if (strcmp(name, "used_memory") == 0 || strcmp(name, "used_gpu_memory") == 0)
        snprintf(out, GWI_SMI_VALUE_MAX, "%u", (unsigned)(process->usedGpuMemory >> 20));
    else if (strcmp(name, "timestamp") == 0 || strncmp(name, "gpu_", 4) == 0)
        return gwi_smi_get(name, device, out)[0] != '\0';
    else
        return false;
    return true;
}

static int query_processes(const options *asked, const cards *found)
{
    static nvmlProcessInfo_t processes[GWI_SMI_PROCESSES_MAX];
    static const nvmlProcessInfo_t nobody;
    char names[1024];
    char value[GWI_SMI_VALUE_MAX];
    const char *columns[GWI_SMI_COLUMNS_MAX];
    unsigned count = 0;
    snprintf(names, sizeof names, "%s", asked->processes);
    char *rest = names;
    for (char *word = strsep(&rest, ","); word != NULL && count < GWI_SMI_COLUMNS_MAX; word = strsep(&rest, ",")) {
        word += strspn(word, " ");
        if (!process_value(word, found->device[0], &nobody, value)) {
            printf("Field \"%s\" is not a valid field to query.\n\n", word);
            return EXIT_USAGE_ERROR;
        }
        columns[count++] = word;
        if (asked->header)
            printf("%s%s%s", count > 1 ? ", " : "", word, strncmp(word, "used_", 5) == 0 ? " [MiB]" : "");
    }
    printf("%s", asked->header ? "\n" : "");
    for (unsigned d = 0; d < found->count; d++) {
        unsigned process_count = processes_of(found->device[d], processes);
        for (unsigned p = 0; p < process_count; p++) {
            for (unsigned c = 0; c < count; c++) {
                process_value(columns[c], found->device[d], &processes[p], value);
                put(c, value, asked->units && strncmp(columns[c], "used_", 5) == 0 ? "MiB" : NULL);
            }
            printf("\n");
        }
    }
    return 0;
}

/* --- for people ----------------------------------------------------------------------------------------- */

static int list(const cards *found)
{
    char name[GWI_SMI_VALUE_MAX];
    char uuid[GWI_SMI_VALUE_MAX];
    for (unsigned d = 0; d < found->count; d++) {
        unsigned index = d;
        nvmlDeviceGetIndex(found->device[d], &index);
        printf("GPU %u: %s (UUID: %s)\n", index, gwi_smi_get("name", found->device[d], name),
               gwi_smi_get("uuid", found->device[d], uuid));
    }
    return 0;
}

static const char rule[] =
    "+-----------------------------------------------------------------------------------------+";

static void cuda_version(char out[GWI_SMI_VALUE_MAX])
{
    int version = 0;
    nvmlSystemGetCudaDriverVersion_v2(&version);
    snprintf(out, GWI_SMI_VALUE_MAX, "%d.%d", version / 1000, version % 1000 / 10);
}

/* Print the table rows of one GPU. */
static void card_rows(nvmlDevice_t device)
{
    enum { VALUES = 16 };
    static const char *const names[VALUES] = {"index",
                                              "name",
                                              "persistence_mode",
                                              "pci.bus_id",
                                              "display_active",
                                              "ecc.errors.uncorrected.volatile.total",
                                              "fan.speed",
                                              "temperature.gpu",
                                              "pstate",
                                              "power.draw",
                                              "power.limit",
                                              "memory.used",
                                              "memory.total",
                                              "utilization.gpu",
                                              "compute_mode",
                                              "mig.mode.current"};
    static char value[VALUES][GWI_SMI_VALUE_MAX];
    char power[GWI_SMI_VALUE_MAX];
    char memory[GWI_SMI_VALUE_MAX];
    char percent[2][16] = {"N/A", "N/A"};
    for (int i = 0; i < VALUES; i++) {
        char raw[GWI_SMI_VALUE_MAX];
        const char *text = gwi_smi_get(names[i], device, raw);
        snprintf(value[i], sizeof value[i], "%s", text);
    }
    snprintf(power, sizeof power, "%dW / %4dW", atoi(value[9]), atoi(value[10]));
    snprintf(memory, sizeof memory, "%.8sMiB / %6.8sMiB", value[11], value[12]);
    if (value[6][0] != 'N')
        snprintf(percent[0], sizeof percent[0], "%.4s%%", value[6]);
    if (value[13][0] != 'N')
        snprintf(percent[1], sizeof percent[1], "%.4s%%", value[13]);
    printf("| %3s  %-26.26s    %-4s | %18s %3s | %20s |\n", value[0], value[1],
           strcmp(value[2], "Enabled") == 0 ? "On" : "Off", value[3], strcmp(value[4], "Enabled") == 0 ? "On" : "Off",
           value[5]);
    printf("| %-4s %3sC %5s %24s | %22s | %7s %12s |\n", percent[0], value[7], value[8], power, memory, percent[1],
           value[14]);
    printf("| %39s | %22s | %20s |\n", "", "", value[15]);
}

static int table(const cards *found)
{
    static nvmlProcessInfo_t processes[GWI_SMI_PROCESSES_MAX];
    static const char inner[] =
        "+-----------------------------------------+------------------------+----------------------+";
    char driver[GWI_SMI_VALUE_MAX] = "";
    char cuda[GWI_SMI_VALUE_MAX];
    unsigned total = 0;
    nvmlSystemGetDriverVersion(driver, sizeof driver);
    cuda_version(cuda);
    printf("%s\n| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s |\n%s\n", rule, driver, driver, cuda,
           inner);
    printf("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
           "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
           "|                                         |                        |               MIG M. |\n"
           "|=========================================+========================+======================|\n");
    for (unsigned d = 0; d < found->count; d++) {
        card_rows(found->device[d]);
        printf("%s\n", inner);
    }
    printf("\n%s\n| Processes:                                                                              |\n"
           "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
           "|        ID   ID                                                               Usage      |\n"
           "|=========================================================================================|\n",
           rule);
    for (unsigned d = 0; d < found->count; d++) {
        unsigned index = d;
        unsigned count = processes_of(found->device[d], processes);
        nvmlDeviceGetIndex(found->device[d], &index);
        for (unsigned p = 0; p < count; p++, total++) {
            char name[GWI_SMI_VALUE_MAX];
            process_name(processes[p].pid, name);
            printf("| %4u   N/A  N/A %16u      C   %-33.33s %8uMiB |\n", index, processes[p].pid, name,
                   (unsigned)(processes[p].usedGpuMemory >> 20));
        }
    }
    if (total == 0)
        printf("|  No running processes found                                                             |\n");
    printf("%s\n", rule);
    return 0;
}

static const struct {
    const char *section; /* NULL: same as in the previous row */
    const char *label;
    const char *field;
} details_rows[] = {{"", "Product Name", "name"},
                    {NULL, "Persistence Mode", "persistence_mode"},
                    {NULL, "Serial Number", "serial"},
                    {NULL, "GPU UUID", "uuid"},
                    {"PCI", "Bus Id", "pci.bus_id"},
                    {NULL, "Current Link Gen", "pcie.link.gen.current"},
                    {NULL, "Max Link Gen", "pcie.link.gen.max"},
                    {NULL, "Current Link Width", "pcie.link.width.current"},
                    {NULL, "Max Link Width", "pcie.link.width.max"},
                    {"Clocks Event Reasons", "Idle", "clocks_event_reasons.gpu_idle"},
                    {NULL, "SW Power Cap", "clocks_event_reasons.sw_power_cap"},
                    {NULL, "HW Slowdown", "clocks_event_reasons.hw_slowdown"},
                    {NULL, "HW Thermal Slowdown", "clocks_event_reasons.hw_thermal_slowdown"},
                    {NULL, "HW Power Brake Slowdown", "clocks_event_reasons.hw_power_brake_slowdown"},
                    {NULL, "SW Thermal Slowdown", "clocks_event_reasons.sw_thermal_slowdown"},
                    {"FB Memory Usage", "Total", "memory.total"},
                    {NULL, "Reserved", "memory.reserved"},
                    {NULL, "Used", "memory.used"},
                    {NULL, "Free", "memory.free"},
                    {"Utilization", "Gpu", "utilization.gpu"},
                    {NULL, "Memory", "utilization.memory"},
                    {"ECC Mode", "Current", "ecc.mode.current"},
                    {"ECC Errors", "Volatile Uncorrectable", "ecc.errors.uncorrected.volatile.total"},
                    {NULL, "Aggregate Uncorrectable", "ecc.errors.uncorrected.aggregate.total"},
                    {"Remapped Rows", "Correctable Error", "remapped_rows.correctable"},
                    {NULL, "Uncorrectable Error", "remapped_rows.uncorrectable"},
                    {NULL, "Pending", "remapped_rows.pending"},
                    {NULL, "Remapping Failure Occurred", "remapped_rows.failure"},
                    {"Temperature", "GPU Current Temp", "temperature.gpu"},
                    {"GPU Power Readings", "Power Draw", "power.draw"},
                    {NULL, "Current Power Limit", "power.limit"},
                    {NULL, "Default Power Limit", "power.default_limit"},
                    {"Clocks", "SM", "clocks.current.sm"},
                    {NULL, "Memory", "clocks.current.memory"}};

/* Print the part of -q that scripts read: one "name : value" per line, indented by section. */
static int details(const cards *found)
{
    char value[GWI_SMI_VALUE_MAX];
    char cuda[GWI_SMI_VALUE_MAX];
    cuda_version(cuda);
    printf("\n==============NVSMI LOG==============\n\n%-44s: %s\n", "Timestamp",
           gwi_smi_get("timestamp", found->device[0], value));
    printf("%-44s: %s\n%-44s: %s\n\n", "Driver Version", gwi_smi_get("driver_version", found->device[0], value),
           "CUDA Version", cuda);
    printf("%-44s: %u\n", "Attached GPUs", found->count);
    for (unsigned d = 0; d < found->count; d++) {
        bool inside = false;
        printf("GPU %s\n", gwi_smi_get("pci.bus_id", found->device[d], value));
        for (size_t i = 0; i < sizeof details_rows / sizeof *details_rows; i++) {
            if (details_rows[i].section != NULL && (inside = details_rows[i].section[0] != '\0'))
                printf("    %s\n", details_rows[i].section);
            const gwi_smi_field *field = gwi_smi_field_find(details_rows[i].field);
            const char *text = gwi_smi_get(details_rows[i].field, found->device[d], value);
            const char *unit = field->unit != NULL && strcmp(text, "N/A") != 0 ? field->unit : "";
            printf("%s%-*s: %s%s%s\n", inside ? "        " : "    ", inside ? 36 : 40, details_rows[i].label, text,
                   unit[0] != '\0' ? " " : "", unit);
        }
        printf("\n");
    }
    return 0;
}

static int version(void)
{
    char text[GWI_SMI_VALUE_MAX] = "";
    char cuda[GWI_SMI_VALUE_MAX];
    nvmlSystemGetDriverVersion(text, sizeof text);
    cuda_version(cuda);
    printf("NVIDIA-SMI version  : %s\nDRIVER version      : %s\nCUDA Version        : %s\n", text, text, cuda);
    return 0;
}

static int answer(const options *asked, const cards *found)
{
    if (asked->version)
        return version();
    if (found->count == 0) {
        printf("No devices were found\n");
        return NVML_ERROR_NOT_FOUND;
    }
    if (asked->gpus != NULL)
        return query_gpus(asked, found);
    if (asked->processes != NULL)
        return query_processes(asked, found);
    if (asked->list)
        return list(found);
    if (asked->details)
        return details(found);
    return table(found);
}

/* Sleep for the interval of -l or -lms and return true. Without such an option, return false at once. */
static bool again(options *asked)
{
    if (asked->loop_s == NULL && asked->loop_ms == NULL)
        return false;
    long ms = asked->loop_ms != NULL ? atol(asked->loop_ms) : atol(asked->loop_s) * 1000;
    if (ms < 1)
        ms = 1;
    asked->header = false; /* print the header only once */
    fflush(stdout);
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
    return true;
}

int main(int argc, char **argv)
{
    options asked = {.header = true, .units = true};
    cards found = {0};
    if (!parse(argc, argv, &asked))
        return EXIT_USAGE_ERROR;
    if (asked.help) {
        printf("%s", usage);
        return 0;
    }
    nvmlReturn_t result = nvmlInit_v2();
    if (result != NVML_SUCCESS) {
        printf("Failed to initialize NVML: %s\n", nvmlErrorString(result));
        return (int)result;
    }
    int status = asked.version ? 0 : cards_find(asked.id, &found);
    if (status == 0)
        do
            status = answer(&asked, &found);
        while (status == 0 && again(&asked));
    nvmlShutdown();
    return status;
}
