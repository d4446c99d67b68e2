# For people. CMake does the work; CMakePresets.json has the other builds.
#
#   make            build into build/
#   make demo       a training run that dies on a virtual card, and why
#   make check      everything that can be checked without a GPU
#   make check-pythons  Python's frames under CPython 3.9 to 3.14, which are brought where they lack (root)
#   make check-gpu  what needs one; fails where there is none
#   make bench      what recording costs
#   make bench-gpu  the same where there is a GPU; fails where there is none
#   make corpus     how often the verdict on a log is right: CORPUS=a folder of labelled logs
#   make truth      programs with known truth, judged on the virtual card: TRUTH_COUNT=3000, TRUTH_SEED= the clock's
#   make fuzz       the parsers against made-up input
#   make soak       long runs
#   make install    PREFIX=/usr/local, DESTDIR=
PREFIX ?= /usr/local
BUILD := build
JOBS := $(shell nproc)

all: tools-build
	@sh tools/build.sh $(BUILD) -DCMAKE_BUILD_TYPE=Release

# What building needs; demo and check ask for the optional libraries, too.
tools-build:
	@sh tools/need.sh build

demo:
	@sh tools/need.sh build logs
	@sh tools/build.sh $(BUILD) -DCMAKE_BUILD_TYPE=Release
	@sh tools/demo.sh $(BUILD)

check:
	@sh tools/need.sh build logs dnnl check
	@sh tools/check.sh

check-pythons: all
	@sh tools/need.sh pythons
	@sh tools/pythons.sh
	@cd $(BUILD) && ctest -R '^python_' --output-on-failure --no-tests=error

check-gpu: all
	@sh tools/check_gpu.sh $(BUILD)

bench: all
	@sh tools/bench.sh $(BUILD)

bench-gpu: all
	@sh tools/bench.sh $(BUILD) --real

corpus: all
	@sh tools/need.sh build logs
	@python3 -B tests/logs/corpus.py --gpuwhy $(BUILD)/gpuwhy $(or $(CORPUS),$(error CORPUS is not set: a folder with index.tsv and its logs))

truth: all
	@sh tools/need.sh build
	@python3 -B tests/truth/truth.py --build $(BUILD) --count $(or $(TRUTH_COUNT),3000) $(if $(TRUTH_SEED),--seed $(TRUTH_SEED))

fuzz:
	@sh tools/need.sh build logs fuzz
	@sh tools/fuzz.sh

soak: all
	@sh tools/soak.sh $(BUILD)

install: all
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)" >$(BUILD)/install.log || { cat $(BUILD)/install.log; exit 1; }
	@echo "installed: $(DESTDIR)$(PREFIX)/bin/gpuwhy"

clean:
	@rm -rf build build-*

.PHONY: all tools-build demo check check-pythons check-gpu bench bench-gpu corpus truth fuzz soak install clean
