/* Read PTX text: entry names, parameter sizes and data objects. Instructions are ignored. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gwi_image.h"

typedef struct reader {
    const char *at, *end; /* borrowed from the caller's text */
    const char *token;    /* the current token */
    size_t token_bytes;   /* 0: end of the text */
    const gwi_image_wants *wants;
    gwi_image *image;
    char *reason;
    size_t reason_bytes;
    bool directives_seen;
} reader;

static void skip_space(reader *rd)
{
    while (rd->at < rd->end) {
        if (isspace((unsigned char)*rd->at)) {
            rd->at++;
        } else if (rd->end - rd->at >= 2 && rd->at[0] == '/' && rd->at[1] == '/') {
            while (rd->at < rd->end && *rd->at != '\n')
                rd->at++;
        } else if (rd->end - rd->at >= 2 && rd->at[0] == '/' && rd->at[1] == '*') {
            rd->at += 2;
            while (rd->end - rd->at >= 2 && !(rd->at[0] == '*' && rd->at[1] == '/'))
                rd->at++;
            rd->at = rd->end - rd->at >= 2 ? rd->at + 2 : rd->end;
        } else {
            return;
        }
    }
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%';
}

static bool next(reader *rd)
{
    skip_space(rd);
    rd->token = rd->at;
    if (rd->at < rd->end && *rd->at == '"') {
        rd->at++;
        while (rd->at < rd->end && *rd->at != '"')
            rd->at++;
        if (rd->at < rd->end)
            rd->at++;
    } else if (rd->at < rd->end && is_word(*rd->at)) {
        while (rd->at < rd->end && is_word(*rd->at))
            rd->at++;
    } else if (rd->at < rd->end) {
        rd->at++;
    }
    rd->token_bytes = (size_t)(rd->at - rd->token);
    return rd->token_bytes > 0;
}

static bool is(const reader *rd, const char *text)
{
    return strlen(text) == rd->token_bytes && memcmp(rd->token, text, rd->token_bytes) == 0;
}

static int fail(const reader *rd, int code, const char *text)
{
    int shown = rd->token_bytes > 40 ? 40 : (int)rd->token_bytes;
    snprintf(rd->reason, rd->reason_bytes, "PTX: %s near \"%.*s\"", text, shown, rd->token);
    return code;
}

static uint64_t number(const reader *rd)
{
    char text[32];
    size_t bytes = rd->token_bytes < sizeof text - 1 ? rd->token_bytes : sizeof text - 1;
    memcpy(text, rd->token, bytes);
    text[bytes] = '\0';
    return strtoull(text, NULL, 0);
}

/* Return the size of a type: 8 for ".u64", 1 for ".b8". Returns 0 if the token is not a type. */
static uint32_t type_bytes(const reader *rd)
{
    static const struct {
        const char *name;
        uint32_t bytes;
    } types[] = {{".b8", 1},    {".u8", 1},   {".s8", 1},  {".b16", 2}, {".u16", 2}, {".s16", 2},
                 {".f16", 2},   {".bf16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4}, {".f32", 4},
                 {".f16x2", 4}, {".b64", 8},  {".u64", 8}, {".s64", 8}, {".f64", 8}, {".b128", 16}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (is(rd, types[i].name))
            return types[i].bytes;
    return 0;
}

/* A declared variable such as `.align 8 .b8 name[24]`, without its initial value. */
typedef struct variable {
    const char *name;
    size_t name_bytes;
    uint32_t element_bytes, align;
    uint64_t bytes;
} variable;

static int read_variable(reader *rd, variable *var)
{
    memset(var, 0, sizeof *var);
    uint32_t vector = 1;
    while (rd->token_bytes > 0 && rd->token[0] == '.') {
        uint32_t bytes = type_bytes(rd);
        if (bytes > 0) {
            var->element_bytes = bytes;
        } else if (is(rd, ".align")) {
            next(rd);
            var->align = (uint32_t)number(rd);
        } else if (is(rd, ".v2") || is(rd, ".v4")) {
            vector = rd->token[2] == '2' ? 2 : 4;
        } else if (is(rd, ".attribute")) {
            while (next(rd) && !is(rd, ")"))
                continue;
        }
        next(rd);
    }
    if (rd->token_bytes == 0 || !is_word(rd->token[0]))
        return fail(rd, 218, "a name is missing");
    var->name = rd->token;
    var->name_bytes = rd->token_bytes;
    if (var->element_bytes == 0)
        var->element_bytes = 8; /* .texref and similar types are handles of 8 bytes */
    var->bytes = (uint64_t)var->element_bytes * vector;
    next(rd);
    while (is(rd, "[")) {
        next(rd);
        uint64_t count = is(rd, "]") ? 0 : number(rd);
        if (count > (uint64_t)1 << 40 || __builtin_mul_overflow(var->bytes, count, &var->bytes))
            return fail(rd, 218, "an array is too large");
        if (!is(rd, "]") && (!next(rd) || !is(rd, "]")))
            return fail(rd, 218, "\"]\" is missing");
        next(rd);
    }
    if (var->align == 0 || (var->align & (var->align - 1)) != 0 || var->align > 4096)
        var->align = var->element_bytes * vector;
    return 0;
}

/* Read `= {1, 2}` or `= 5`. Nested braces are flattened. A value that is not a number (an address) stays zero. */
static int read_initial(reader *rd, const variable *var, gwi_global_info *global)
{
    int depth = 0;
    uint64_t offset = 0;
    bool negative = false;
    bool keep = global->bytes > 0 && global->bytes <= (uint64_t)64 << 20;
    if (keep)
        global->initial = calloc(1, (size_t)global->bytes);
    do {
        if (!next(rd))
            return fail(rd, 218, "an initial value is not terminated");
        if (is(rd, "{")) {
            depth++;
        } else if (is(rd, "}")) {
            depth--;
        } else if (is(rd, "-")) {
            negative = true;
        } else if (!is(rd, ",") && !is(rd, ";")) {
            uint64_t value = negative ? -number(rd) : number(rd);
            negative = false;
            if (global->initial != NULL && offset + var->element_bytes <= global->bytes)
                memcpy(global->initial + offset, &value, var->element_bytes < 8 ? var->element_bytes : 8);
            offset += var->element_bytes;
        }
    } while (depth > 0 || negative);
    next(rd);
    return 0;
}

/* Read the declarations after .global or .const. */
static int read_globals(reader *rd, bool constant, bool external)
{
    variable var;
    int code = read_variable(rd, &var);
    if (code != 0)
        return code;
    if (!external) {
        gwi_global_info *global = gwi_image_add_global(rd->image, var.name, var.name_bytes, var.bytes);
        if (global == NULL)
            return fail(rd, 2, "out of host memory");
        global->constant = constant;
        if (constant && var.bytes < UINT32_MAX - rd->image->constant_bytes)
            rd->image->constant_bytes += (uint32_t)var.bytes;
        if (is(rd, "=") && (code = read_initial(rd, &var, global)) != 0)
            return code;
    }
    while (!is(rd, ";"))
        if (!next(rd))
            return fail(rd, 218, "\";\" is missing");
    return 0;
}

static int read_params(reader *rd, gwi_kernel_info *kernel)
{
    uint32_t offset = 0;
    next(rd);
    while (!is(rd, ")")) {
        variable var;
        if (!is(rd, ".param"))
            return fail(rd, 218, "\".param\" is missing");
        next(rd);
        int code = read_variable(rd, &var);
        if (code != 0)
            return code;
        offset = (offset + var.align - 1) / var.align * var.align;
        if (var.bytes > 32768 || !gwi_kernel_add_param(kernel, offset, (uint32_t)var.bytes))
            return fail(rd, 218, "too many or too large parameters");
        offset += (uint32_t)var.bytes;
        if (is(rd, ","))
            next(rd);
        else if (!is(rd, ")"))
            return fail(rd, 218, "\")\" is missing");
    }
    next(rd);
    return 0;
}

/* Skip the block after the current "{" and add up the shared memory that is declared in it. */
static int read_body(reader *rd, gwi_kernel_info *kernel)
{
    int depth = 0;
    do {
        if (is(rd, "{")) {
            depth++;
        } else if (is(rd, "}")) {
            depth--;
        } else if (kernel != NULL && is(rd, ".shared")) {
            variable var;
            next(rd);
            int code = read_variable(rd, &var);
            if (code != 0)
                return code;
            if (var.bytes < UINT32_MAX - kernel->shared_bytes)
                kernel->shared_bytes += (uint32_t)var.bytes;
            continue; /* read_variable() has already read the token after the variable */
        }
        if (depth > 0 && !next(rd))
            return fail(rd, 218, "a body is not terminated");
    } while (depth > 0);
    return 0;
}

static int read_entry(reader *rd)
{
    next(rd);
    if (rd->token_bytes == 0 || !is_word(rd->token[0]))
        return fail(rd, 218, "an entry has no name");
    gwi_kernel_info *kernel = gwi_image_add_kernel(rd->image, rd->token, rd->token_bytes);
    if (kernel == NULL)
        return fail(rd, 2, "out of host memory");
    next(rd);
    int code = is(rd, "(") ? read_params(rd, kernel) : 0;
    while (code == 0 && !is(rd, "{") && !is(rd, ";")) {
        if (is(rd, ".maxntid")) {
            uint64_t threads = 1;
            do {
                next(rd);
                uint64_t n = number(rd);
                threads = n > 0 && n <= 1024 ? threads * n : threads;
                next(rd);
            } while (is(rd, ","));
            kernel->threads_max = (uint32_t)threads;
        } else if (!next(rd)) {
            return fail(rd, 218, "an entry has no body");
        }
    }
    return code != 0 || is(rd, ";") ? code : read_body(rd, kernel);
}

static int read_func(reader *rd)
{
    while (!is(rd, "{") && !is(rd, ";"))
        if (!next(rd))
            return fail(rd, 218, "a function is not terminated");
    return is(rd, ";") ? 0 : read_body(rd, NULL);
}

static int read_version(reader *rd)
{
    next(rd);
    unsigned major = 0;
    unsigned minor = 0;
    char text[16] = "";
    memcpy(text, rd->token, rd->token_bytes < sizeof text - 1 ? rd->token_bytes : sizeof text - 1);
    if (sscanf(text, "%4u.%4u", &major, &minor) != 2)
        return fail(rd, 218, "the version is missing");
    rd->image->ptx_version = (int)(major * 10 + minor);
    rd->directives_seen = true;
    if (rd->image->ptx_version > rd->wants->ptx_version_max)
        return fail(rd, 222, "the version is newer than this driver supports");
    return 0;
}

static int read_target(reader *rd)
{
    next(rd);
    char text[16] = "";
    unsigned arch = 0;
    memcpy(text, rd->token, rd->token_bytes < sizeof text - 1 ? rd->token_bytes : sizeof text - 1);
    if (sscanf(text, "sm_%4u", &arch) != 1 || arch < 10 || (int)arch > rd->wants->compute_capability)
        return fail(rd, 218, "the target is not for this card");
    return 0;
}

static int read_directive(reader *rd)
{
    bool external = false;
    while (is(rd, ".visible") || is(rd, ".extern") || is(rd, ".weak") || is(rd, ".common")) {
        external = external || is(rd, ".extern");
        next(rd);
    }
    if (is(rd, ".version"))
        return read_version(rd);
    if (!rd->directives_seen)
        return fail(rd, 200, "not a module image");
    if (is(rd, ".target"))
        return read_target(rd);
    if (is(rd, ".entry"))
        return read_entry(rd);
    if (is(rd, ".func"))
        return read_func(rd);
    if (is(rd, ".global") || is(rd, ".const")) {
        bool constant = rd->token[1] == 'c';
        next(rd);
        return read_globals(rd, constant, external);
    }
    if (is(rd, "{"))
        return read_body(rd, NULL);
    return 0;
}

int gwi_image_read_ptx(const char *text, size_t bytes, const gwi_image_wants *wants, gwi_image *image, char *reason,
                       size_t reason_bytes)
{
    reader rd = {.at = text,
                 .end = text + bytes,
                 .wants = wants,
                 .image = image,
                 .reason = reason,
                 .reason_bytes = reason_bytes};
    if (!next(&rd))
        return fail(&rd, 200, "an empty image");
    do {
        int code = read_directive(&rd);
        if (code != 0)
            return code;
    } while (next(&rd));
    if (!rd.directives_seen)
        return fail(&rd, 200, "not a module image");
    image->binary_version = wants->compute_capability;
    return 0;
}
