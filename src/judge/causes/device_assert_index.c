/* An assertion failed in a kernel, nearly always because an index or a label was out of range.
 *
 * Established only by: one of these, because only an assertion in device code causes 710:
 * - The first result that destroyed the context is 710, and the assertion's text is on stderr or in a GPU core dump.
 * - A log without a recording has the assertion's text, followed by an error.
 *
 * Supported by: one of these:
 * - 710 without the text
 * - 710 after a refused allocation that the program did not check
 * - 710 after a reset that destroyed memory */
#include "gwi_sticky.h"

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    enum { DEVICE_ASSERT = 710 };
    const gw_failure *sticky = c->sticky;
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    const gw_stderr_line *line = &facts->device_assert;
    if (sticky == NULL || sticky->result != DEVICE_ASSERT)
        return GW_CERTAINTY_NONE;
    bool index = gw_stderr_field(facts, line, GW_SAYS_DEVICE_ASSERT, "index") != NULL;
    char culprit[GWI_CULPRIT_MAX], surfaced[GWI_SURFACED_MAX];
    gwi_headline(finding, "an assertion failed in %s%s%s", gwi_culprit_text(culprit, c, sticky),
                 gwi_surfaced_text(surfaced, c, sticky), index ? ": an index or a label is out of range" : "");
    if (line->seen)
        gwi_say_line_count(c, finding, line);
    gwi_say_sticky(c, finding, sticky, "a device-side assertion failed in a kernel");
    if (!line->seen)
        gwi_evidence(finding, GWI_NO_TIME, "stderr", "the assertion's text was not recorded");
    gwi_say_consequences(c, finding, sticky);
    const gw_gpu_fault *dump = gwi_gpu_fault(c);
    bool named = dump != NULL && dump->result == DEVICE_ASSERT;
    if (gwi_is_explained_earlier(c, sticky))
        return GW_SUPPORTED; /* the kernel may have checked values from memory that was refused or destroyed */
    return line->seen || named ? GW_ESTABLISHED : GW_SUPPORTED;
}

const gw_cause gwi_cause_device_assert_index = {
    .id = "device-assert-index",
    .summary = "An assertion failed in a kernel, almost always because an index or a label is out of range.",
    .proof = "the driver's result 710 as the first result that destroyed the context, and the assertion's text on "
             "stderr or in a GPU core dump",
    .fixes =
        {[GW_FRAMEWORK_RAW] = "Before the launch, check the values that the assertion names",
         [GW_FRAMEWORK_TORCH] =
             "Check the range of labels against the number of classes, token ids against the embedding's size, the "
             "longest input against the positions, and the padding index\n"
             "Run the failing batch on the CPU: the exception then names the line"},
    .depth = GWI_IS_FAULT,
    .judge = judge,
};
