# The way in. CMake does the building; these targets run it with the presets of CMakePresets.json.
# CC=clang uses that compiler, in build folders of its own (build/dev-clang, ...).

ifeq ($(origin CC),default)
CC = gcc
endif
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc)

# build/PRESET for gcc, build/PRESET-COMPILER for any other.
suffix = $(if $(filter gcc,$(notdir $(CC))),,-$(notdir $(CC)))
folder = build/$(1)$(suffix)
# Builds one preset. Configures it only at first: afterwards the build itself sees what changed, but
# for the presets.
build  = { [ $(call folder,$(1))/build.ninja -nt CMakePresets.json ] \
           || cmake --preset $(1) -B $(call folder,$(1)) -DCMAKE_C_COMPILER=$(CC); } \
         && cmake --build $(call folder,$(1)) -j $(JOBS)
SETUP  = scripts/setup.sh build runtime $(if $(filter clang%,$(notdir $(CC))),lint)

.DEFAULT_GOAL := release
.PHONY: release dev demo test sanitize bench cutlass pack kernels install format lint setup clean help

release: ## build the library, the worker and the command (the default)
	@$(SETUP)
	@$(call build,release)

dev: ## the same with debug settings, and the tests
	@$(SETUP) test
	@$(call build,dev)

demo: release ## multiply two matrices, break the worker in between, and go on
	@TROUPE_BUILD=$(call folder,release) scripts/demo.sh

test: dev ## run the test suite
	@scripts/run_tests.sh $(call folder,dev)

sanitize: ## run the test suite under ASan+UBSan, then under TSan
	@$(SETUP) test
	@$(call build,asan)
	@$(call build,tsan)
	@scripts/run_tests.sh $(call folder,asan) $(call folder,tsan)

bench: release ## measure what a request through the worker costs
	@$(call folder,release)/bin/troupe bench dispatch

cutlass: ## fetch the headers of CUTLASS, for the kernels that are made of them
	@scripts/cutlass.sh

pack: release cutlass ## compile the usual kernels of CUTLASS ahead; takes minutes, needs NVRTC
	@$(call folder,release)/bin/troupe cutlass pack --spec share/troupe/default-pack.json \
	    --arch 90a,80,86,89 --jobs $(JOBS) -o build/troupe-default.trpk
	@ln -f build/troupe-default.trpk $(call folder,release)/share/troupe/default.trpk

kernels: release ## compile the dnn actor's own kernels ahead; takes minutes, needs NVRTC
	@$(call folder,release)/bin/troupe kernels -o build/troupe-kernels.trpk
	@ln -f build/troupe-kernels.trpk $(call folder,release)/share/troupe/kernels.trpk

install: release ## install under PREFIX (default /usr/local)
	@ldconfig -p | grep -q libnvrtc && [ ! -e build/troupe-kernels.trpk ] \
	    && $(MAKE) --no-print-directory kernels || true
	@cmake --install $(call folder,release) --prefix $(abspath $(PREFIX))

format: ## rewrite all C files with clang-format
	@scripts/setup.sh lint
	@scripts/format.sh

lint: ## the static gates: format, layers, clang-tidy
	@scripts/setup.sh build runtime test lint
	@scripts/format.sh --check
	@scripts/check_layers.py
	@scripts/tidy.sh

setup: ## install every package that any target needs, and fetch what tests need
	@scripts/setup.sh build runtime test lint
	@scripts/cutlass.sh || true
	@tests/peer/fetch.sh || true

clean: ## remove all build folders
	@rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
