/* Find the signs of signs.def in a text. Hyperscan first searches for the literals of all signs (literals.c),
 * almost as fast as memory can be read. PCRE2 then matches the exact patterns against the few lines with a literal.
 * Hyperscan could search for the patterns, too, but needs 1.7 s to compile them (137 patterns, Hyperscan 5.4).
 * Compiling the literals takes 0.1 s, so it is done when gpuwhy is built. */
#include "gwi_logs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gw_sign_kind gw_sign_kind_of(gw_sign sign)
{
    return (unsigned)sign < GW_SIGN_COUNT ? gwi_signs[sign].kind : GW_SIGN_NOISE;
}

#if GW_HAVE_MATCHER

#define PCRE2_CODE_UNIT_WIDTH 8
#include <hs/hs.h>
#include <pcre2.h>
#include <pthread.h>
#include <stdatomic.h>

bool gw_logs_are_supported(void)
{
    return true;
}

bool gw_logs_matcher_version(char out[GW_LOGS_VERSION_MAX])
{
    char pcre2[64] = "?"; /* PCRE2's version; like Hyperscan's, followed by a date */
    if (pcre2_config(PCRE2_CONFIG_VERSION, NULL) <= (int)sizeof pcre2)
        pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
    const char *hyperscan = hs_version();
    snprintf(out, GW_LOGS_VERSION_MAX, "Hyperscan %.*s, PCRE2 %.*s", (int)strcspn(hyperscan, " "), hyperscan,
             (int)strcspn(pcre2, " "), pcre2);
    return true;
}

/* The compiled pattern of a sign. */
typedef struct reading {
    pcre2_code *code;
    size_t group_count;
    uint32_t group_number[GW_LOG_FIELDS_MAX];
    char group[GW_LOG_FIELDS_MAX][24]; /* names of the groups, without digits */
} reading;

/* Data that all matchers share. It is loaded or compiled only once per process, and never freed. Any thread may read
 * it. */
static struct {
    pthread_mutex_t making;
    hs_database_t *database;                   /* set at the first use, while `making` is locked */
    _Atomic(reading *) reading[GW_SIGN_COUNT]; /* compiled when first needed, while `making` is locked */
    atomic_bool broken[GW_SIGN_COUNT];         /* PCRE2 rejected the pattern; logs_test checks all patterns */
} shared = {.making = PTHREAD_MUTEX_INITIALIZER};

/* The matcher of one thread. */
struct gwi_matcher {
    const hs_database_t *database; /* borrowed from `shared` */
    hs_scratch_t *scratch;
    pcre2_match_data *match;
};

void gwi_matcher_close(gwi_matcher *matcher)
{
    if (matcher == NULL)
        return;
    pcre2_match_data_free(matcher->match);
    hs_free_scratch(matcher->scratch);
    free(matcher);
}

#ifdef GW_PATTERNS_FILE
/* The literals, compiled when gpuwhy was built (make_patterns.c). They are part of the program, not a file that
 * somebody could replace. */
extern const char built_patterns[] __attribute__((visibility("hidden")));
extern const char built_patterns_end[] __attribute__((visibility("hidden")));
__asm__(".pushsection .rodata\n.balign 64\nbuilt_patterns:\n.incbin \"" GW_PATTERNS_FILE "\"\nbuilt_patterns_end:\n"
        ".byte 0\n.popsection");

/* False if another version of Hyperscan is installed than the one that compiled the literals. */
static bool load_patterns(hs_database_t **ret_database)
{
    return hs_deserialize_database(built_patterns, (size_t)(built_patterns_end - built_patterns), ret_database) ==
           HS_SUCCESS;
}
#else
static bool load_patterns(hs_database_t **ret_database)
{
    (void)ret_database;
    return false;
}
#endif

static gw_status borrow_database(const hs_database_t **ret_database, gw_error *err)
{
    gw_status st = GW_OK;
    pthread_mutex_lock(&shared.making);
    if (shared.database == NULL && !load_patterns(&shared.database))
        st = gwi_patterns_compile(NULL, &shared.database, err);
    *ret_database = shared.database;
    pthread_mutex_unlock(&shared.making);
    return st;
}

gw_status gwi_matcher_open(gwi_matcher **ret_matcher, gw_error *err)
{
    enum { GROUPS_MAX = 32 };
    gwi_matcher *matcher = calloc(1, sizeof *matcher);
    if (matcher == NULL)
        return gw_fail(err, GW_NOMEM, "read logs");
    gw_status st = borrow_database(&matcher->database, err);
    if (st == GW_OK && ((matcher->match = pcre2_match_data_create(GROUPS_MAX, NULL)) == NULL ||
                        hs_alloc_scratch(matcher->database, &matcher->scratch) != HS_SUCCESS))
        st = gw_fail(err, GW_NOMEM, "read logs");
    if (st != GW_OK) {
        gwi_matcher_close(matcher);
        return st;
    }
    *ret_matcher = matcher;
    return GW_OK;
}

struct scan {
    gwi_hit hit;
    void *user;
};

static int on_match(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *user)
{
    const struct scan *scan = user;
    (void)from;
    (void)flags;
    return !scan->hit(scan->user, (gw_sign)id, (size_t)to);
}

gw_status gwi_matcher_scan(gwi_matcher *matcher, const char *bytes, size_t count, gwi_hit hit, void *user,
                           gw_error *err)
{
    struct scan scan = {hit, user};
    hs_error_t done = hs_scan(matcher->database, bytes, (unsigned)count, 0, matcher->scratch, on_match, &scan);
    if (done != HS_SUCCESS && done != HS_SCAN_TERMINATED)
        return gw_fail(err, GW_UNSUPPORTED, "the matcher's error %d", (int)done);
    return GW_OK;
}

/* Store the names of the groups without their digits. The digits only distinguish groups with the same meaning in
 * different alternatives. */
static void note_groups(reading *it)
{
    uint32_t count = 0, entry_bytes = 0;
    PCRE2_SPTR table = NULL;
    pcre2_pattern_info(it->code, PCRE2_INFO_NAMECOUNT, &count);
    pcre2_pattern_info(it->code, PCRE2_INFO_NAMEENTRYSIZE, &entry_bytes);
    pcre2_pattern_info(it->code, PCRE2_INFO_NAMETABLE, &table);
    for (uint32_t i = 0; i < count && i < GW_LOG_FIELDS_MAX; i++) {
        const unsigned char *entry = table + (size_t)i * entry_bytes;
        char *name = it->group[i];
        size_t bytes = strcspn((const char *)entry + 2, "0123456789");
        bytes = bytes < sizeof it->group[0] - 1 ? bytes : sizeof it->group[0] - 1;
        memcpy(name, entry + 2, bytes);
        name[bytes] = '\0';
        it->group_number[i] = (uint32_t)entry[0] << 8 | entry[1];
        it->group_count++;
    }
}

/* Compile the pattern of a sign. Returns NULL if out of memory, or if PCRE2 rejects the pattern. */
static reading *make_reading(gw_sign sign)
{
    int number;
    PCRE2_SIZE at;
    reading *it = calloc(1, sizeof *it);
    if (it == NULL)
        return NULL;
    it->code = pcre2_compile((PCRE2_SPTR)gwi_signs[sign].pattern, PCRE2_ZERO_TERMINATED, 0, &number, &at, NULL);
    if (it->code == NULL) {
        free(it);
        return NULL;
    }
    pcre2_jit_compile(it->code, PCRE2_JIT_COMPLETE); /* JIT is optional: without it, matching is only slower */
    note_groups(it);
    return it;
}

static const reading *reading_of(gw_sign sign)
{
    reading *it = atomic_load_explicit(&shared.reading[sign], memory_order_acquire);
    if (it != NULL || atomic_load_explicit(&shared.broken[sign], memory_order_relaxed))
        return it;
    pthread_mutex_lock(&shared.making);
    it = atomic_load_explicit(&shared.reading[sign], memory_order_relaxed);
    if (it == NULL) {
        it = make_reading(sign);
        atomic_store_explicit(&shared.reading[sign], it, memory_order_release);
        atomic_store_explicit(&shared.broken[sign], it == NULL, memory_order_relaxed);
    }
    pthread_mutex_unlock(&shared.making);
    return it;
}

bool gwi_matcher_line(gwi_matcher *matcher, gw_sign sign, const char *line, size_t bytes, gwi_match *ret_match)
{
    const reading *it = reading_of(sign);
    *ret_match = (gwi_match){0};
    if (it == NULL || pcre2_match(it->code, (PCRE2_SPTR)line, bytes, 0, 0, matcher->match, NULL) < 0)
        return false;
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(matcher->match);
    uint32_t at_count = pcre2_get_ovector_count(matcher->match);
    for (size_t i = 0; i < it->group_count; i++) {
        uint32_t number = it->group_number[i];
        if (number >= at_count || at[2 * number] == PCRE2_UNSET)
            continue;
        ret_match->field[ret_match->field_count].name = it->group[i];
        ret_match->field[ret_match->field_count].begin = at[2 * number];
        ret_match->field[ret_match->field_count++].end = at[2 * number + 1];
    }
    return true;
}

#else

bool gw_logs_are_supported(void)
{
    return false;
}

bool gw_logs_matcher_version(char out[GW_LOGS_VERSION_MAX])
{
    out[0] = '\0';
    return false;
}

gw_status gwi_matcher_open(gwi_matcher **ret_matcher, gw_error *err)
{
    (void)ret_matcher;
    return gw_fail(err, GW_UNSUPPORTED, "this build cannot read text logs (built without Hyperscan and PCRE2)");
}

void gwi_matcher_close(gwi_matcher *matcher)
{
    (void)matcher;
}

gw_status gwi_matcher_scan(gwi_matcher *matcher, const char *bytes, size_t count, gwi_hit hit, void *user,
                           gw_error *err)
{
    (void)matcher, (void)bytes, (void)count, (void)hit, (void)user;
    return gw_fail(err, GW_UNSUPPORTED, "this build cannot read text logs");
}

bool gwi_matcher_line(gwi_matcher *matcher, gw_sign sign, const char *line, size_t bytes, gwi_match *ret_match)
{
    (void)matcher, (void)sign, (void)line, (void)bytes;
    *ret_match = (gwi_match){0};
    return false;
}

#endif
