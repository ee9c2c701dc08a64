# Two commands are enough: `make run` and `make test`. `make help` lists the others.

CARGO ?= cargo
MAVEN ?= mvn
.DEFAULT_GOAL := help

.PHONY: help
help: ## Lists the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

.PHONY: run
run: ## Builds the broker, starts it, shows a message going in and out, and serves until Ctrl-C
	$(CARGO) build --release --locked -p metaq
	@scripts/demo target/release/metaq

.PHONY: build
build: ## Builds everything that tests need
	$(CARGO) build --locked --workspace --all-targets

.PHONY: prepare
prepare: ## Installs what the tests need and isn't there (Debian packages; needs root or sudo)
	@scripts/prepare

.PHONY: lint
lint: ## Format, clippy, layout of the workspace
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

.PHONY: test
test: prepare ## Installs what the tests need and runs all of them
	@scripts/test

.PHONY: bench
bench: ## Measures the broker against raw disk, raw sockets and the original (about 15 minutes, machine otherwise idle)
	@scripts/bench

.PHONY: soak
soak: ## Long tests: 100,000 crash points, 200 kills of the real binary (about an hour)
	@scripts/soak

.PHONY: fuzz
fuzz: ## Fuzzes each decoder for FUZZ_SECONDS (60)
	@scripts/fuzz

.PHONY: clean
clean: ## Removes what was built
	$(CARGO) clean
