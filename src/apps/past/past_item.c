/* Past runs in memory, lists of them, and the earlier attempts as the text of their column. */
#include "gwi_past_db.h"

#include "gw_array.h"

#include <ctype.h>
#include <stdlib.h>

void gwi_past_clear(gwi_past *past)
{
    free(past->cause);
    free(past->end);
    free(past->card);
    free(past->recording);
    free(past->folder);
    free(past->command);
    for (size_t i = 0; i < past->attempt_count; i++) {
        free(past->attempt[i].cause);
        free(past->attempt[i].end);
        free(past->attempt[i].recording);
    }
    free(past->attempt);
    *past = (gwi_past){0};
}

bool gwi_past_failed(const gwi_past *past)
{
    return past->status == GW_VERDICT_FAULT || (past->has_exit && (past->signal != 0 || past->exit_code != 0));
}

void gwi_past_free(gwi_past_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        gwi_past_clear(&list->item[i]);
    free(list->item);
    *list = (gwi_past_list){0};
}

/* ---- earlier attempts ---- */

/* The column has cause, end and recording of each attempt. A tab precedes each of them. Control characters and percent
 * signs are written as %XX. */
static void add_field(gw_text *line, const char *value)
{
    gw_text_add(line, "\t", 1);
    for (; *value != '\0'; value++) {
        unsigned char byte = (unsigned char)*value;
        if (byte < ' ' || byte == '%' || byte == 0x7f)
            gw_text_addf(line, "%%%02X", byte);
        else
            gw_text_add(line, value, 1);
    }
}

void gwi_past_attempts_encode(const gwi_past *past, gw_text *text)
{
    for (size_t i = 0; i < past->attempt_count; i++) {
        add_field(text, past->attempt[i].cause);
        add_field(text, past->attempt[i].end);
        add_field(text, past->attempt[i].recording);
    }
}

/* Decode %XX in place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        char digits[3] = "";
        if (from[0] == '%' && isxdigit((unsigned char)from[1]) && isxdigit((unsigned char)from[2])) {
            memcpy(digits, from + 1, 2);
            *to++ = (char)strtoul(digits, NULL, 16);
            from += 3;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

enum { ATTEMPT_FIELDS = 3 };

/* End the field at *at, and move *at to the next field, or to NULL after the last one. */
static char *next_field(char **at)
{
    char *field = *at;
    *at = field == NULL ? NULL : strchr(field, '\t');
    if (*at != NULL)
        *(*at)++ = '\0';
    return field;
}

bool gwi_past_attempts_decode(char *rest, gwi_past *past)
{
    while (rest != NULL) {
        char *field[ATTEMPT_FIELDS];
        for (size_t i = 0; i < ATTEMPT_FIELDS; i++)
            field[i] = next_field(&rest);
        if (field[ATTEMPT_FIELDS - 1] == NULL)
            return true;
        if (!gw_array_more(&past->attempt, past->attempt_count, sizeof *past->attempt))
            return false;
        gwi_past_attempt *attempt = &past->attempt[past->attempt_count++];
        char **text[] = {&attempt->cause, &attempt->end, &attempt->recording};
        bool copied = true;
        for (size_t i = 0; i < ATTEMPT_FIELDS; i++) {
            unescape(field[i]);
            *text[i] = strdup(field[i]);
            copied = copied && *text[i] != NULL;
        }
        if (!copied)
            return false;
    }
    return true;
}
