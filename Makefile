# For people. CMake does the work; see CMakePresets.json for other builds.
all:
	@cmake -S . -B build -DCMAKE_BUILD_TYPE=Release >build-configure.log 2>&1 || { cat build-configure.log; exit 1; }
	@cmake --build build -j$$(nproc)
.PHONY: all
