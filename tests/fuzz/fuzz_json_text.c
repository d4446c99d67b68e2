/* Fuzz the text inside JSON: notebooks and error files of torchrun. */
#include "gwi_logs.h"
#include "seeds.h"

#include "gw_text.h"

static void write_seeds(const char *folder)
{
    static const char *const seeds[] = {"{\"cells\": [{\"cell_type\": \"code\", \"outputs\": [{\"text\": [\"a\\n\"]}, "
                                        "{\"ename\": \"E\", \"evalue\": \"v\", "
                                        "\"traceback\": [\"t\\u001b[0m\"]}]}]}",
                                        "{\"message\": {\"message\": \"E: m\", \"errorCode\": 1, \"extraInfo\": "
                                        "{\"py_callstack\": \"Traceback\\nE: m\\n\", "
                                        "\"timestamp\": \"1\"}}}"};
    write_texts(folder, seeds, sizeof seeds / sizeof seeds[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    gw_text text = {0};
    if (gwi_is_notebook((const char *)data, bytes))
        gwi_notebook_outputs((const char *)data, bytes, &text);
    gw_text_free(&text);
    return 0;
}
