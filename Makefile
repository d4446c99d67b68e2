# Shortcuts for common tasks. CMake does the work; CMakePresets.json has the other builds.
#
#   make            build into build/
#   make products libgpuscope and the trainer, in build/libgpuscope and build/trainer
#   make demo       a training run that fails on a virtual card, and its verdict
#   make check      every test that does not need a GPU
#   make check-pythons  Python frames under CPython 3.9 to 3.14; installs missing versions (root)
#   make check-slurm  the plugin for Slurm on three nodes in namespaces; installs Slurm if it is missing (root)
#   make check-gpu  the tests that need a GPU; fails without one
#   make bench      measure the cost of recording
#   make bench-ranks  measure how `gpuwhy explain` reads a job of ten thousand ranks
#   make bench-gpu  the same on a GPU; fails without one
#   make corpus     accuracy of the verdicts on logs: CORPUS=a folder of labelled logs
#   make truth      accuracy of the verdicts on generated programs: TRUTH_COUNT=3000, TRUTH_SEED= (default: the clock)
#   make rescue     failing programs with `gpuwhy run --rescue`: how many are saved, and by what; blind restarts beside it
#   make golden     explain the same inputs with an older build and print every difference: BASE=commit, CORPUS=, GOLDEN_PROGRAMS=3000,
#                   GOLDEN_SEED=, GOLDEN_KINDS=logs,messages (default: all)
#   make size       lines of each room and feature, and the budgets of the rooms (docs/size.md); BASE=commit (default: the last release)
#   make fuzz       run the fuzzers of the parsers
#   make soak       repeat the long tests
#   make install    PREFIX=/usr/local, DESTDIR=
#   make install-libgpuscope  the same for the library
#   make wheel      the wheel alone, in build-packages/
#   make packages   wheel, archive, Debian and RPM packages in build-packages/; docs/packages.md describes them
#   make check-packages  install and run each package; compare two builds (root, for chroots)
PREFIX ?= /usr/local
BUILD := build
JOBS := $(shell nproc)

all: tools-build
	@sh tools/build.sh $(BUILD) -DCMAKE_BUILD_TYPE=Release

# Check what a build needs. demo and check also look for the optional libraries.
tools-build:
	@sh tools/need.sh build

products: all
	@sh tools/need.sh products
	@sh tools/products.sh $(BUILD)

demo:
	@sh tools/need.sh build logs
	@sh tools/build.sh $(BUILD) -DCMAKE_BUILD_TYPE=Release
	@sh tools/demo.sh $(BUILD)

check:
	@sh tools/check.sh

check-pythons: all
	@sh tools/need.sh pythons
	@sh tools/pythons.sh
	@cd $(BUILD) && ctest -R '^python_' --output-on-failure --no-tests=error

check-slurm:
	@sh tools/need.sh build slurm
	@sh tools/build.sh $(BUILD) -DCMAKE_BUILD_TYPE=Release
	@GPUWHY_BUILD=$(BUILD) python3 -B tests/slurm/test_slurm.py

check-gpu: products
	@sh tools/check_gpu.sh $(BUILD)

bench: all
	@sh tools/bench.sh $(BUILD)

bench-ranks: all
	@python3 -B tests/ranks/bench_ranks.py $(BUILD)/gpuwhy
	@python3 -B tests/ranks/bench_ranks.py $(BUILD)/gpuwhy --waiting

bench-gpu: all
	@sh tools/bench.sh $(BUILD) --real

corpus: all
	@sh tools/need.sh build logs
	@python3 -B tests/logs/corpus.py --gpuwhy $(BUILD)/gpuwhy $(or $(CORPUS),$(error CORPUS is not set: a folder with index.tsv and its logs))

truth: all
	@sh tools/need.sh build
	@python3 -B tests/truth/truth.py --build $(BUILD) --count $(or $(TRUTH_COUNT),3000) $(if $(TRUTH_SEED),--seed $(TRUTH_SEED))

rescue: all
	@sh tools/need.sh build
	@python3 -B tests/rescue/rescue.py --build $(BUILD)

golden:
	@sh tools/need.sh build logs
	@sh tools/build.sh $(BUILD) $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DCMAKE_BUILD_TYPE=Release)
	@python3 -B tools/golden.py --build $(BUILD) --base $(or $(BASE),$(error BASE is not set: the commit to compare with)) \
	    $(if $(CORPUS),--corpus $(CORPUS)) $(if $(GOLDEN_PROGRAMS),--programs $(GOLDEN_PROGRAMS)) \
	    $(if $(GOLDEN_SEED),--seed $(GOLDEN_SEED)) $(if $(GOLDEN_KINDS),--kinds $(GOLDEN_KINDS))

size:
	@python3 -B tools/size.py $(if $(BASE),--base $(BASE))

fuzz:
	@sh tools/need.sh build logs fuzz
	@sh tools/fuzz.sh

soak: all
	@sh tools/soak.sh $(BUILD)

install: all
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)" >$(BUILD)/install.log || { cat $(BUILD)/install.log; exit 1; }
	@echo "installed: $(DESTDIR)$(PREFIX)/bin/gpuwhy"

install-libgpuscope: all
	@sh tools/products.sh $(BUILD) libgpuscope
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD)/libgpuscope --prefix "$(PREFIX)" >$(BUILD)/install.log || { cat $(BUILD)/install.log; exit 1; }
	@[ -n "$(DESTDIR)" ] || sh tools/ldconfig_hint.sh $(BUILD)/install.log

packages:
	@sh tools/packages.sh

wheel:
	@sh tools/packages.sh wheel

check-packages:
	@sh tools/check_packages.sh build-packages

clean:
	@rm -rf build build-*

.PHONY: all products tools-build demo check check-pythons check-slurm check-gpu bench bench-ranks bench-gpu corpus truth rescue golden size fuzz soak install install-libgpuscope packages wheel check-packages clean
