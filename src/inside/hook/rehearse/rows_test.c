/* Each call of api/driver.api that names device memory must have a function in front of the driver: a stand-in that
 * apigen wrote, or one written by hand. What names an address is found here from the types alone, and independently of
 * apigen: addresses and handles by value, lists of addresses, and structures of gw_cuda_abi.h that contain one. */
#include "gw_unit_test.h"
#include <stdio.h>
#include <string.h>

#include "gw_hook_rehearsal.h"
#include "gwi_course.h"
#include "gwi_rehearse.h"

gwi_state gwi;

/* ---- what the functions need of the hook; none of it is called ---- */

void *gwi_real[GW_FN_COUNT];

bool gwi_lock(void)
{
    return true;
}

void gwi_unlock(void)
{
}

void gwi_reads_see(unsigned fn, uint64_t bytes)
{
}

bool gwi_fact(unsigned kind, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, const char *text)
{
    return true;
}

bool gwi_course_copy_make(uint64_t device, gwi_course_copy *ret_copy)
{
    return false;
}

void gwi_course_copy_free(gwi_course_copy *copy)
{
}

/* ---- which structures contain an address ---- */

enum { STRUCTURES_MAX = 200, NAME_BYTES = 64 };
static char structures[STRUCTURES_MAX][NAME_BYTES];
static size_t structure_count;

static char *file_read(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    assert_non_null(file);
    assert_non_null(text);
    size_t bytes = fread(text, 1, (1 << 20) - 1, file);
    assert_true(bytes > 1000 && bytes < (1 << 20) - 1);
    fclose(file);
    return text;
}

/* True if `text` contains the word outside of longer words. */
static bool has_word(const char *text, const char *word)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) {
        bool begins = at == text || strchr(letters, at[-1]) == NULL;
        char after = at[strlen(word)];
        if (begins && (after == '\0' || strchr(letters, after) == NULL))
            return true;
    }
    return false;
}

static bool has_address(const char *text)
{
    static const char *const words[] = {"CUdeviceptr", "CUdeviceptr_v1", "CUmemGenericAllocationHandle"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has_word(text, words[i]))
            return true;
    for (size_t i = 0; i < structure_count; i++)
        if (has_word(text, structures[i]))
            return true;
    return false;
}

static void structure_add(const char *name, size_t bytes)
{
    if (bytes == 0 || bytes >= NAME_BYTES)
        return;
    char copy[NAME_BYTES] = "";
    memcpy(copy, name, bytes);
    for (size_t i = 0; i < structure_count; i++)
        if (strcmp(structures[i], copy) == 0)
            return;
    assert_true(structure_count < STRUCTURES_MAX);
    memcpy(structures[structure_count++], copy, sizeof copy);
}

/* Find the structures whose bodies name an address, or a structure found before. */
static void structures_find(const char *header)
{
    for (const char *at = header; (at = strstr(at, "\ntypedef ")) != NULL; at++) {
        const char *open = strpbrk(at, "{;"), *close = open != NULL ? strstr(open, "\n}") : NULL;
        if (open == NULL || *open != '{' || close == NULL)
            continue;
        char *body = strndup(open, (size_t)(close - open));
        assert_non_null(body);
        if (has_address(body))
            structure_add(close + 3, strcspn(close + 3, ";, "));
        free(body);
    }
    structure_add("CUstreamBatchMemOpParams", strlen("CUstreamBatchMemOpParams")); /* not described in our header */
    structure_add("CUDA_RESOURCE_DESC", strlen("CUDA_RESOURCE_DESC"));
    structure_add("CUarrayMapInfo", strlen("CUarrayMapInfo"));
}

/* ---- which calls name one ---- */

/* True if the parameter carries an address into the call. `dptr_out` and the like only return one. */
static bool is_input(const char *symbol, const char *parameter)
{
    static const char *const lists[] = {"dptrs", "dsts", "srcs"};
    if (!has_address(parameter))
        return false;
    if (strchr(parameter, '*') == NULL || strstr(parameter, "const ") != NULL)
        return true;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (has_word(parameter, lists[i]))
            return true;
    bool is_plain = has_word(parameter, "CUdeviceptr") || has_word(parameter, "CUdeviceptr_v1") ||
                    has_word(parameter, "CUmemGenericAllocationHandle");
    bool returns = is_plain || strstr(symbol, "GetParams") != NULL || strstr(symbol, "GetResourceDesc") != NULL;
    return !returns;
}

static bool names_address(const char *symbol, char *parameters)
{
    bool found = false;
    char *rest = NULL;
    for (char *one = strtok_r(parameters, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest))
        found = found || is_input(symbol, one);
    return found;
}

GW_TEST(test_every_address_is_caught)
{
    char *rows = file_read(GW_TEST_API), *header = file_read(GW_TEST_ABI), *rest = NULL;
    unsigned named = 0, missing = 0;
    structures_find(header);
    structures_find(header); /* structures that contain those */
    assert_true(structure_count > 10);
    for (char *line = strtok_r(rows, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char symbol[NAME_BYTES] = "", *parameters = strrchr(line, '|');
        if (line[0] == '#' || parameters == NULL || sscanf(line, "%63s", symbol) != 1 ||
            !names_address(symbol, parameters + 1))
            continue;
        int fn = gw_api_find_symbol(symbol);
        assert_true(fn >= 0);
        named++;
        if (gwi_rehearsal_of((unsigned)fn) == NULL) {
            missing++;
            print_error("%s names device memory, but nothing stands in front of the driver\n", symbol);
        }
    }
    assert_true(named > 150);
    assert_int_equal(missing, 0);
    free(rows);
    free(header);
}

/* What takes device memory must be caught, too, although it names none. */
GW_TEST(test_allocations_are_caught)
{
    static const char *const symbols[] = {
        "cuMemAlloc",    "cuMemAlloc_v2",   "cuMemAllocPitch_v2", "cuMemAllocManaged",      "cuMemAllocAsync",
        "cuMemCreate",   "cuMemMap",        "cuMemPoolCreate",    "cuGraphAddMemAllocNode", "cuMemAllocAsync_ptsz",
        "cuLaunch",      "cuLaunchGrid",    "cuLaunchKernel",     "cuLaunchKernel_ptsz",    "cuLaunchKernelEx_ptsz",
        "cuGraphLaunch", "cuMemGetInfo_v2", "cuMemFree_v2",       "cuMemFreeAsync_ptsz",    "cuMemAllocFromPoolAsync"};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        int fn = gw_api_find_symbol(symbols[i]);
        assert_true(fn >= 0);
        if (gwi_rehearsal_of((unsigned)fn) == NULL)
            fail_msg("nothing stands in front of %s", symbols[i]);
    }
}

/* A call that only asks about devices or streams goes straight to the driver. */
GW_TEST(test_others_are_left_alone)
{
    static const char *const symbols[] = {"cuInit", "cuDeviceGet", "cuStreamCreate", "cuModuleLoadData",
                                          "cuEventQuery"};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        assert_null(gwi_rehearsal_of((unsigned)gw_api_find_symbol(symbols[i])));
}

GW_TEST_MAIN(NULL, NULL)
