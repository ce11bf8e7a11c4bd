# What a clone is for. `make help` lists it.

CARGO ?= cargo
SANDBOX = $(CARGO) run --quiet --package sandbox --
# A test that needs a cluster is a file named cluster_*.rs; every other one needs none.
UNIT = --lib --bins $(patsubst tests/%.rs,--test %,$(filter-out tests/cluster_%,$(wildcard tests/*.rs)))

.PHONY: help run test unit check bench fuzz clean

help: ## Lists the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

run: ## A real control plane, the manifests, mds inside, a tour, then yours for kubectl. ONCE=1: ends after the tour. CLUSTER=kubeconfig: on a cluster that exists (YES=1: without asking)
	$(SANDBOX) run $(if $(ONCE),--once) $(if $(CLUSTER),--cluster '$(CLUSTER)') $(if $(YES),--yes)

test: unit ## Everything that is claimed here: unit, then on one real control plane
	$(SANDBOX) test -- $(CARGO) test --workspace --locked --tests

unit: ## Unit and property tests, rules of the house: Rust and a C compiler are enough
	$(CARGO) test --locked $(UNIT)

check: ## Format, lints, documentation, licences
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked
	$(CARGO) deny --workspace check licenses bans sources

bench: ## Every benchmark; numbers land in target/criterion
	$(CARGO) bench --locked

fuzz: ## Every fuzz target for SECONDS each (30)
	@for target in $$(RUSTC_BOOTSTRAP=1 $(CARGO) fuzz list); do \
	  RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run --sanitizer none $$target -- -max_total_time=$(or $(SECONDS),30) -timeout=10 || exit 1; \
	done

clean: ## Removes what was built, the control plane too
	$(CARGO) clean
	rm -rf .sandbox
