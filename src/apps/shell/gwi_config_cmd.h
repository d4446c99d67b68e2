/* The configuration of this process, and `gpuwhy config`. */
#ifndef GWI_CONFIG_CMD_H
#define GWI_CONFIG_CMD_H

#include "gw_config.h"
#include "gw_place.h"

/* The site's file. The user's file is gw_config_path(). */
#define GWI_CONFIG_SITE_PATH "/etc/gpuwhy/config"

/* Read the files and the environment variables into gw_config_process(). Errors are stored there. */
void gwi_config_load(void);
/* Print the errors of the configuration, one line each. */
void gwi_config_say_errors(void);
/* GW_UNSUPPORTED: the configuration switches gpuwhy off, and the command does not work then; `err` has the place. */
GW_MUST_CHECK gw_status gwi_config_needs_on(gw_error *err);

/* Store the value of a key in `text` as scripts need it: sizes in bytes, and the folder that is used. */
void gwi_config_plain(const gw_config *config, gw_config_id id, gw_text *text);
/* Append the configuration as JSON (docs/json-schema.md). GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_config_json(const gw_config *config, gw_text *text, gw_error *err);

#endif
