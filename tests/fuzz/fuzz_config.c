/* Fuzz a configuration file. */
#include "gwi_config.h"

#include "seeds.h"

#include <stdint.h>
#include <stdlib.h>

static void write_seeds(const char *folder)
{
    static const char *const text[] = {
        "/* one */ {\"off\": true, // two\n\"folder\": \"~/runs\", \"hang_after\": 0.5, \"color\": \"never\",\n"
        "\"keep\": {\"days\": 7, \"bytes\": \"8GiB\", \"recordings\": 0}} /* three */",
        "{\"record\": {\"environment\": [\"MODE\", \"MY_*\"], \"limit\": 5}, \"memory\": \"16GiB\", 'quiet': false}",
        "{\"watch\": {\"alarm_at\": \"80%\"}, \"keep.days\": 3, \"kept\": [{\"days\": 1}], \"hang_after\": \"off\"}",
        "{\"keep\": 5}\n// end",
    };
    write_texts(folder, text, sizeof text / sizeof text[0]);
}

/* Each value must be valid for its key, and come from the file or be the standard one. */
static void check_values(const gw_config *config)
{
    gw_config again;
    gw_config_init(&again);
    for (gw_config_id id = 0; id < GW_CONFIG_COUNT; id++) {
        const gw_config_value *value = &config->value[id];
        if (value->source == GW_CONFIG_BUILT_IN)
            continue;
        if (value->source != GW_CONFIG_USER ||
            gw_config_set(&again, id, value->text, GW_CONFIG_USER, 0, NULL) != GW_OK ||
            again.value[id].number != value->number)
            abort();
    }
    gw_config_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gw_config config;
    gw_config_init(&config);
    gw_status st = gw_config_read_text(&config, "FILE", GW_CONFIG_USER, (const char *)data, size);
    if ((st == GW_OK) != (config.error_count == 0) || (st == GW_OK) != (config.errors.bytes == 0))
        abort();
    check_values(&config);
    gw_config_free(&config);
    for (gw_config_id id = 0; id < GW_CONFIG_COUNT; id++)
        (void)gwi_config_line((const char *)data, size, gw_config_keys[id].name);
    return 0;
}
