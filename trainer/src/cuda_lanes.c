/* The two lanes of the back end `cuda`, and the events by which one waits for the other. */
#include "cuda_state.h"

static gs_status open_lane(struct cuda *cuda, struct lane *lane, CUstream stream)
{
    lane->stream = stream;
    gs_status status = gs_cudnn(cuda->card.scope, stream, &lane->cudnn);
    return status == GS_OK ? gs_cublas(cuda->card.scope, stream, &lane->cublas) : status;
}

gs_status lanes_open(struct cuda *cuda)
{
    gs_scope *scope = cuda->card.scope;
    CUstream side = NULL;
    gs_status status = open_lane(cuda, &cuda->lanes[LANE_MAIN], cuda->card.compute);
    if (status == GS_OK)
        status = gs_stream(scope, &side);
    if (status == GS_OK)
        status = open_lane(cuda, &cuda->lanes[LANE_SIDE], side);
    if (status == GS_OK)
        status = gs_event(scope, 0, &cuda->ready);
    for (int i = 0; i <= PARAMETERS_AHEAD && status == GS_OK; i++)
        status = gs_event(scope, 0, &cuda->complete[i]);
    cuda->lane = &cuda->lanes[LANE_MAIN];
    return status;
}

gs_status lanes_wait(struct cuda *cuda)
{
    gs_status status = gs_wait(cuda->lanes[LANE_SIDE].stream);
    return status == GS_OK ? gs_wait(cuda->card.compute) : status;
}

void lanes_use(struct cuda *cuda, const struct step *step)
{
    cuda->lane = &cuda->lanes[step->kind == STEP_PARAMETERS ? LANE_SIDE : LANE_MAIN];
}

gs_status lanes_await(struct cuda *cuda, size_t count)
{
    if (count <= cuda->awaited)
        return GS_OK;
    cuda->awaited = count;
    return gs_follow(cuda->card.compute, cuda->complete[(count - 1) % (PARAMETERS_AHEAD + 1)]);
}

gs_status lanes_begin_side(struct cuda *cuda)
{
    gs_status status = gs_record(cuda->ready, cuda->card.compute);
    return status == GS_OK ? gs_follow(cuda->lanes[LANE_SIDE].stream, cuda->ready) : status;
}

gs_status lanes_end_side(struct cuda *cuda)
{
    size_t number = cuda->begun++;
    gs_status status = gs_record(cuda->complete[number % (PARAMETERS_AHEAD + 1)], cuda->lanes[LANE_SIDE].stream);
    /* while steps are timed, they run one after another */
    return status == GS_OK && cuda->times != NULL ? lanes_await(cuda, cuda->begun) : status;
}
