/* Reads the configuration of this process. */
#include "gwi_config_cmd.h"

#include "gw_say.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void gwi_config_load(void)
{
    gw_path path;
    gw_config *config = gw_config_process();
    (void)gw_config_read(config, GWI_CONFIG_SITE_PATH, GW_CONFIG_SITE, false);
    if (gw_config_path(path, NULL) == GW_OK)
        (void)gw_config_read(config, path, GW_CONFIG_USER, false);
    gw_config_read_environment(config);
}

void gwi_config_say_errors(void)
{
    const char *line = gw_text_str(&gw_config_process()->errors);
    while (*line != '\0') {
        size_t bytes = strcspn(line, "\n");
        gw_say("%.*s", (int)bytes, line);
        line += bytes + (line[bytes] == '\n');
    }
}

gw_status gwi_config_needs_on(gw_error *err)
{
    gw_text place = {0};
    const gw_config *config = gw_config_process();
    if (config->value[GW_CONFIG_OFF].number == 0)
        return GW_OK;
    gw_config_add_place(config, GW_CONFIG_OFF, &place);
    gw_status st = gw_fail(err, GW_UNSUPPORTED, "gpuwhy is switched off (%s)", gw_text_str(&place));
    gw_text_free(&place);
    return st;
}

void gwi_config_plain(const gw_config *config, gw_config_id id, gw_text *text)
{
    gw_path folder;
    const gw_config_value *value = &config->value[id];
    if (id == GW_CONFIG_FOLDER && gw_state_path(folder, NULL) == GW_OK)
        gw_text_add_str(text, folder);
    else if (gw_config_keys[id].type == GW_CONFIG_TYPE_SIZE)
        gw_text_addf(text, "%" PRIu64, value->number);
    else
        gw_text_add_str(text, value->text);
}
