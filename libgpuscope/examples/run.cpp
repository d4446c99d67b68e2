// The same run in C++11: destructors release the resources and end the scope.
//
//     c++ -std=c++11 run.cpp $(pkg-config --cflags --libs gpuscope) -o run && ./run
#include <gpuwhy/scope.hpp>

#include <cstdio>

static gs_status train(const gpuscope::scope &scope)
{
    gpuscope::stream stream;
    gpuscope::memory weights;
    unsigned char result[4];
    GS_RETURN_IF_FAILED(stream.create(scope));
    GS_RETURN_IF_FAILED(weights.alloc(scope, 64 << 20));
    GS_RETURN_IF_FAILED(gs_fill(weights.get(), 1, weights.bytes(), stream.get()));
    GS_RETURN_IF_FAILED(gs_copy_out(result, weights.get(), sizeof result, stream.get()));
    GS_RETURN_IF_FAILED(stream.wait());
    std::printf("the card answers %d\n", result[0]);
    return GS_OK;
}

int main()
{
    gs_options options = gs_options();
    gpuscope::scope scope;
    gpuscope::report report;
    gs_failure failure;
    char text[1024];
    options.name = "training";
    options.memory_bytes = 1 << 30;
    if (scope.open(options, &failure) != GS_OK) {
        std::fprintf(stderr, "%s\n", gs_failure_text(&failure, text, sizeof text));
        return 1;
    }
    gs_status status = train(scope);
    gs_status ended = scope.end(&report);
    report.print(stdout);
    return status == GS_OK && ended == GS_OK ? 0 : 1;
}
