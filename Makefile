# SPDX-License-Identifier: Apache-2.0
# Entry points. Each works on a fresh Debian 12 machine; what they do is in tools/.
PY := .venv/bin/python
.PHONY: help setup build demo test test-tf bench bench-peers check check-all clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | expand -t 14

setup:  ## install what is needed, build, put the package and `stoker` into ./.venv
	@tools/setup

build: setup  ## the same: set-up builds what changed

demo: setup  ## a training job alone and with helpers, compared
	@$(PY) tools/demo.py

test: setup  ## unit tests, then system tests
	@ctest --test-dir build/release --output-on-failure
	@$(PY) -m pytest -q python tools bench examples tests

test-tf: setup  ## the faces for TensorFlow and JAX, in environments of their own (about 2 GB)
	@tools/test-faces

bench: setup  ## make bench [Q=decode_rrc]: ours beside the peers'
	@$(PY) bench/run.py $(Q)

bench-peers:  ## make every peer's environment under build/peers (about 10 GB)
	@tools/setup
	@$(PY) bench/run.py --setup-peers

check: setup  ## format, layers, build, unit tests
	@tools/check

check-all: setup  ## also sanitizers, the feed's simulation, fuzzers, the wheel, system tests twice, a short bench
	@tools/check --all

clean:  ## remove build/ (not .venv, not downloads)
	rm -rf build
