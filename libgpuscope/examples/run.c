/* The smallest complete use of libgpuscope: a run that leaves nothing on the card, whatever happens in it.
 *
 *     cc run.c $(pkg-config --cflags --libs gpuscope) -o run && ./run */
#include <gpuwhy/scope.h>

static gs_status train(gs_scope *scope)
{
    CUdeviceptr weights, batch;
    CUstream stream;
    unsigned char result[4];
    GS_RETURN_IF_FAILED(gs_stream(scope, &stream));
    GS_RETURN_IF_FAILED(gs_alloc(scope, 64 << 20, &weights));
    GS_RETURN_IF_FAILED(gs_alloc_ordered(scope, 4 << 20, stream, &batch));
    GS_RETURN_IF_FAILED(gs_fill(weights, 1, 64 << 20, stream));
    GS_RETURN_IF_FAILED(gs_copy_out(result, weights, sizeof result, stream));
    GS_RETURN_IF_FAILED(gs_wait(stream));
    printf("the card answers %d\n", result[0]);
    return GS_OK;
}

int main(void)
{
    gs_options options = {.name = "training", .memory_bytes = 1 << 30};
    gs_scope *scope;
    gs_report *report = NULL;
    gs_failure failure;
    char text[1024];
    if (gs_open(&options, &scope, &failure) != GS_OK) {
        fprintf(stderr, "%s\n", gs_failure_text(&failure, text, sizeof text));
        return 1;
    }
    gs_status status = train(scope);
    gs_status ended = gs_end(scope, &report);
    gs_report_print(report, stdout);
    gs_report_free(report);
    return status == GS_OK && ended == GS_OK ? 0 : 1;
}
