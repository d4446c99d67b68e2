/* Reads a configuration file: JSON, with comments. */
#include "gwi_config.h"

#include "gw_own.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 64 << 10 };

typedef struct reading {
    gw_config *config;
    const char *path;
    gw_config_source source;
    const char *text; /* the whole file */
    size_t bytes;
} reading;

/* ---- values ---- */

/* Write the elements of an array, separated by commas. Returns false if one of them is not a name. */
static bool add_names(json_object *array, gw_text *text)
{
    for (size_t i = 0; i < json_object_array_length(array); i++) {
        json_object *item = json_object_array_get_idx(array, i);
        const char *name = json_object_is_type(item, json_type_string) ? json_object_get_string(item) : "";
        if (name[0] == '\0' || strchr(name, ',') != NULL)
            return false;
        gw_text_addf(text, "%s%s", i > 0 ? "," : "", name);
    }
    return true;
}

/* Write a JSON value as the text that the key's environment variable would have. Returns false if the key does not
 * accept values of this JSON type. */
static bool add_value(gw_config_type type, json_object *item, gw_text *text)
{
    json_type has = json_object_get_type(item);
    bool is_number = type == GW_CONFIG_TYPE_COUNT || type == GW_CONFIG_TYPE_SIZE || type == GW_CONFIG_TYPE_HANG ||
                     type == GW_CONFIG_TYPE_THRESHOLD;
    bool is_valid = false;
    switch (has) {
    case json_type_boolean:
        is_valid = type == GW_CONFIG_TYPE_BOOL;
        break;
    case json_type_int:
        is_valid = is_number;
        break;
    case json_type_double:
        is_valid = type == GW_CONFIG_TYPE_HANG;
        break;
    case json_type_string:
        is_valid = type != GW_CONFIG_TYPE_BOOL && type != GW_CONFIG_TYPE_COUNT &&
                   strlen(json_object_get_string(item)) == (size_t)json_object_get_string_len(item);
        break;
    case json_type_array:
        return type == GW_CONFIG_TYPE_NAMES && add_names(item, text);
    case json_type_null:
    case json_type_object:
        break;
    }
    if (is_valid)
        gw_text_add_str(text, json_object_get_string(item));
    return is_valid;
}

static void complain(const reading *r, const char *name, const char *reason)
{
    bool is_listed = r->config->error_count < GWI_CONFIG_ERRORS_MAX;
    unsigned line = is_listed ? gwi_config_line(r->text, r->bytes, name) : 0;
    if (line == 0)
        gwi_config_complain(r->config, "%s: %s", r->path, reason);
    else
        gwi_config_complain(r->config, "%s:%u: %s", r->path, line, reason);
}

static void take_value(const reading *r, gw_config_id id, json_object *item)
{
    const gw_config_key *key = &gw_config_keys[id];
    gw_text text = {0};
    gw_error err;
    gw_status st = GW_OK;
    if (!add_value(key->type, item, &text))
        st = gw_fail(&err, GW_USAGE, "%s: expected %s", key->name, gw_config_valid(key->type));
    else if (text.failed)
        st = gw_fail(&err, GW_NOMEM, "%s: out of memory", key->name);
    else
        st = gw_config_set(r->config, id, gw_text_str(&text), r->source, gwi_config_line(r->text, r->bytes, key->name),
                           &err);
    if (st != GW_OK)
        complain(r, key->name, err.text);
    gw_text_free(&text);
}

/* ---- keys ---- */

/* True if `name` is the part before the dot of a key. */
static bool is_group(const char *name)
{
    size_t bytes = strlen(name);
    for (size_t i = 0; i < GW_CONFIG_COUNT; i++)
        if (strncmp(gw_config_keys[i].name, name, bytes) == 0 && gw_config_keys[i].name[bytes] == '.')
            return true;
    return false;
}

static void take_unknown(const reading *r, const char *name)
{
    char reason[400];
    const char *known = gw_config_suggest(name);
    snprintf(reason, sizeof reason, "unknown key \"%.200s\"%s%s%s", name, known == NULL ? "" : "; did you mean \"",
             known == NULL ? "" : known, known == NULL ? "" : "\"?");
    complain(r, name, reason);
}

static void take_member(const reading *r, const char *name, json_object *item)
{
    gw_config_id id;
    if (gw_config_find(name, &id))
        take_value(r, id, item);
    else
        take_unknown(r, name);
}

static void take_group(const reading *r, const char *group, json_object *object)
{
    char reason[200];
    gw_text name = {0};
    if (!json_object_is_type(object, json_type_object)) {
        snprintf(reason, sizeof reason, "%.100s: expected an object", group);
        complain(r, group, reason);
        return;
    }
    json_object_object_foreach(object, key, item)
    {
        gw_text_clear(&name);
        gw_text_addf(&name, "%s.%s", group, key);
        take_member(r, gw_text_str(&name), item);
    }
    gw_text_free(&name);
}

static void take_root(const reading *r, json_object *root)
{
    if (!json_object_is_type(root, json_type_object)) {
        gwi_config_complain(r->config, "%s: expected an object, such as {\"keep\": {\"days\": 90}}", r->path);
        return;
    }
    json_object_object_foreach(root, key, item)
    {
        if (is_group(key))
            take_group(r, key, item);
        else
            take_member(r, key, item);
    }
}

/* ---- text ---- */

static unsigned line_at(const char *text, size_t offset)
{
    unsigned line = 1;
    for (size_t i = 0; i < offset; i++)
        line += text[i] == '\n';
    return line;
}

/* Return why the text after the object is wrong, or NULL. *ret_at is the offset. */
static const char *wrong_rest(const reading *r, size_t end, size_t *ret_at)
{
    size_t at = end < r->bytes ? end : r->bytes;
    *ret_at = at + gwi_config_blank(r->text, r->bytes, at);
    return *ret_at < r->bytes ? "unexpected text after the object" : NULL;
}

static void parse(const reading *r)
{
    json_tokener *parser = json_tokener_new();
    if (parser == NULL) {
        gwi_config_complain(r->config, "%s: out of memory", r->path);
        return;
    }
    json_object *root = json_tokener_parse_ex(parser, r->text, (int)r->bytes + 1); /* with the zero byte */
    enum json_tokener_error error = json_tokener_get_error(parser);
    size_t at = json_tokener_get_parse_end(parser);
    const char *reason = error == json_tokener_success ? wrong_rest(r, at, &at) : json_tokener_error_desc(error);
    if (reason != NULL)
        gwi_config_complain(r->config, "%s:%u: %s", r->path, line_at(r->text, at < r->bytes ? at : r->bytes), reason);
    else
        take_root(r, root);
    json_object_put(root);
    json_tokener_free(parser);
}

gw_status gw_config_read_text(gw_config *config, const char *path, gw_config_source source, const char *text,
                              size_t bytes)
{
    unsigned before = config->error_count;
    const char *zero = memchr(text, '\0', bytes);
    gw_text copy = {0};
    gw_text_clear(&config->path[source]);
    gw_text_add_str(&config->path[source], path);
    gw_text_add(&copy, text, bytes);
    const reading r = {config, path, source, gw_text_str(&copy), bytes};
    if (copy.failed)
        gwi_config_complain(config, "%s: out of memory", path);
    else if (bytes > FILE_BYTES_MAX)
        gwi_config_complain(config, "%s: larger than %d bytes", path, FILE_BYTES_MAX);
    else if (zero != NULL)
        gwi_config_complain(config, "%s:%u: a zero byte", path, line_at(text, (size_t)(zero - text)));
    else
        parse(&r);
    gw_text_free(&copy);
    return config->error_count == before ? GW_OK : GW_USAGE;
}

/* ---- the file ---- */

/* Check who may have written the open file. `err` has the reason. */
static gw_status check_owner(int fd, const char *path, gw_config_source source, gw_error *err)
{
    struct stat file;
    char whole[PATH_MAX];
    if (fstat(fd, &file) != 0 || realpath(path, whole) == NULL)
        return gw_fail(err, GW_IO, "%s", strerror(errno));
    bool is_ours = source == GW_CONFIG_USER && file.st_uid == geteuid();
    if (!is_ours && !gw_own_is_root(file.st_uid))
        return gw_fail(err, GW_UNSUPPORTED, "ignored, because it belongs to user %u, not to %s", (unsigned)file.st_uid,
                       source == GW_CONFIG_USER ? "you" : "root");
    bool may_group =
        (file.st_mode & S_IWGRP) != 0 && !(is_ours ? gw_own_is_private_group(file.st_gid) : file.st_gid == 0);
    if (may_group || (file.st_mode & S_IWOTH) != 0)
        return gw_fail(err, GW_UNSUPPORTED, "ignored, because other users may write to it (mode %03o)",
                       (unsigned)file.st_mode & 0777);
    *strrchr(whole, '/') = '\0';
    if (!gw_own_path(whole[0] == '\0' ? "/" : whole, NULL))
        return gw_fail(err, GW_UNSUPPORTED, "ignored, because other users may replace it: see the mode of %s", whole);
    return GW_OK;
}

/* Read the file into `text`, which has room for one byte more than the largest file. *ret_bytes is -1 on failure. */
static gw_status read_open(int fd, char *text, size_t *ret_bytes, gw_error *err)
{
    *ret_bytes = 0;
    while (*ret_bytes < FILE_BYTES_MAX + 1) {
        ssize_t got = read(fd, text + *ret_bytes, FILE_BYTES_MAX + 1 - *ret_bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return gw_fail(err, GW_IO, "%s", strerror(errno));
        if (got == 0)
            break;
        *ret_bytes += (size_t)got;
    }
    return GW_OK;
}

gw_status gw_config_read(gw_config *config, const char *path, gw_config_source source, bool is_trusted)
{
    struct stat info;
    gw_error err;
    int fd = -1;
    size_t bytes = 0;
    if (stat(path, &info) != 0) /* also if a folder on the way is closed to us: then it is not our file */
        return GW_MISSING;
    char *text = malloc(FILE_BYTES_MAX + 1);
    gw_status st = text == NULL ? gw_fail(&err, GW_NOMEM, "out of memory") : gw_plain_open(path, true, &fd, &err);
    if (st == GW_OK && !is_trusted)
        st = check_owner(fd, path, source, &err);
    if (st == GW_OK)
        st = read_open(fd, text, &bytes, &err);
    if (st == GW_OK)
        st = gw_config_read_text(config, path, source, text, bytes);
    else
        gwi_config_complain(config, "%s: %s", path, err.text);
    if (fd >= 0)
        close(fd);
    free(text);
    return st;
}
