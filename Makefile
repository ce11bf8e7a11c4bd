# What a clone is for; `make help` lists it. What is missing on a machine is said in one sentence.

CARGO ?= cargo
SECONDS ?= 30
TARGET = $(shell $(CARGO) metadata --locked --format-version 1 --no-deps | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')

# A test that needs a cluster is a file cluster_*.rs, or one of the sandbox's own; every other one needs none.
CLUSTER_TESTS = $(basename $(notdir $(wildcard tests/cluster_*.rs tests/sandbox/tests/*.rs)))
UNIT_TESTS = $(basename $(notdir $(filter-out tests/cluster_%,$(wildcard tests/*.rs))))

# One build for the program and the sandbox, so that what they share is compiled once.
BUILD = $(CARGO) build --workspace --bins --locked
SANDBOX = MDS_BIN='$(TARGET)/debug/mds' '$(TARGET)/debug/sandbox'

.PHONY: help tools run test unit check bench fuzz clean

help: ## lists the targets
	@sed -n 's/^\([a-z]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 10

tools:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust (https://rustup.rs)" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "a C compiler is missing: install cc (build-essential, gcc or clang)" >&2; exit 1; }

run: tools ## a real control plane, mds inside, a tour, then yours for kubectl (ONCE=1; CLUSTER=kubeconfig, YES=1)
	@$(BUILD)
	@$(SANDBOX) run $(if $(ONCE),--once) $(if $(CLUSTER),--cluster '$(CLUSTER)' $(if $(YES),--yes))

test: unit ## all tests: the unit tests, then those on one real control plane
	@$(BUILD)
	@$(SANDBOX) test -- $(CARGO) test --workspace --locked $(addprefix --test ,$(CLUSTER_TESTS))

unit: tools ## unit and property tests, examples, rules of the house; Rust and a C compiler are enough
	$(CARGO) test --workspace --locked --lib --bins $(addprefix --test ,$(UNIT_TESTS))
	$(CARGO) test --workspace --locked --doc

check: ## format, lints, documentation, licences
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked
	$(CARGO) deny --workspace check licenses bans sources

bench: ## every benchmark
	$(CARGO) bench --package mds --benches --locked

fuzz: ## every fuzz target, SECONDS=30 each; needs cargo-fuzz
	@for target in $$(RUSTC_BOOTSTRAP=1 $(CARGO) fuzz list); do \
	  echo "fuzz $$target"; \
	  RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run --sanitizer none $$target -- -max_total_time=$(SECONDS) -timeout=10 -verbosity=0 || exit 1; \
	done

clean: ## removes what was built, the control plane too
	$(CARGO) clean
	rm -rf .sandbox
