# Leaseway's commands, for people and for CI alike: CI calls the same targets.
# `make test` needs Go, a C compiler (for the race detector), redis-server and Postgres,
# which it installs where it may; `lint` builds its linter once; `generate`, `drift` and `tools` also need npm.

GO       ?= go
BIN      := $(CURDIR)/.bin
BUF      := tools/node_modules/.bin/buf
LINT     := $(BIN)/golangci-lint

# Tests run once plainly, and once more under the race detector where goroutines
# share memory. The pure packages have none, so the detector would only cost time.
RACE_CANDIDATES := internal/table internal/store internal/coordinator \
                   internal/rpc internal/load internal/proxy leasewayhttp leasewaygrpc leasewayredis internal/server internal/rulestore internal/admin
RACE := $(if $(wildcard *_test.go),.) \
        $(foreach dir,$(RACE_CANDIDATES),$(if $(wildcard $(dir)/*.go $(dir)/*/*.go),./$(dir)/...))

# Flags of all test runs, such as TESTFLAGS='-run TestName -count 1 -v'. On a slow machine a package may take longer than Go's ten minutes.
TESTFLAGS ?= -timeout 20m
# How often bench-packages runs each benchmark.
BENCHCOUNT ?= 6
# How long soak runs.
SOAK ?= 3m
# The tables that bench measures, such as TABLES=hot,http; all of them if empty.
TABLES ?=

# Pure Go, so that every target cross-compiles from any machine.
CROSS := darwin/arm64 darwin/amd64 linux/arm64

.DEFAULT_GOAL := help
.PHONY: help demo redis postgres proxies test test-plain test-race test-bench lint fmt generate drift tidy-check bench soak bench-packages cross tools clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: ## Watch three API servers share limits through a coordinator
	$(GO) run ./cmd/leaseway demo

test: redis postgres proxies test-plain test-bench test-race ## Run all tests, with the race detector where it pays

test-plain:
	$(GO) test $(TESTFLAGS) ./...

# The tests start servers of their own, on free ports; without the program they
# would be skipped. Debian's package also starts a service, which is not needed.
redis: ## Install redis-server, which the tests of the Redis store start
	@command -v redis-server >/dev/null || { echo "installing redis-server" && \
	apt-get install -y --no-install-recommends redis-server >/dev/null || \
	{ apt-get update >/dev/null && apt-get install -y --no-install-recommends redis-server >/dev/null; } || \
	{ echo "redis-server cannot be installed here: install Redis 7 or later so that it is on the PATH" >&2; exit 1; }; }

# Debian keeps the server off the PATH, where the tests find it too.
postgres: ## Install Postgres, which the tests of the rule store start
	@command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres /opt/homebrew/opt/postgresql*/bin/postgres 2>/dev/null | grep -q . || \
	{ echo "installing postgresql" && apt-get install -y --no-install-recommends postgresql >/dev/null; } || \
	{ apt-get update >/dev/null && apt-get install -y --no-install-recommends postgresql >/dev/null; } || \
	{ echo "Postgres cannot be installed here: install version 15 or later so that it is on the PATH" >&2; exit 1; }

# Debian's packages also start services, which are not needed: RUNLEVEL=1 has them not do so.
proxies: ## Install nginx, Caddy, HAProxy, promtool and systemd-analyze, which the tests of deploy/ run, and curl, which those of examples/ do
	@missing=; for program in nginx caddy haproxy promtool systemd-analyze curl; do \
	  PATH="$$PATH:/usr/sbin" command -v $$program >/dev/null || missing="$$missing $$program"; \
	done; \
	[ -z "$$missing" ] || { \
	  packages=$$(echo $$missing | sed 's/promtool/prometheus/; s/systemd-analyze/systemd/'); echo "installing $$packages"; \
	  RUNLEVEL=1 apt-get install -y --no-install-recommends $$packages >/dev/null || \
	  { apt-get update >/dev/null && RUNLEVEL=1 apt-get install -y --no-install-recommends $$packages >/dev/null; } || \
	  { echo "cannot be installed here:$$missing. Have nginx 1.22, Caddy 2.6, HAProxy 2.6 with Lua, promtool 2.42, systemd 252, or later, and curl on the PATH" >&2; exit 1; }; }

# That the peers of docs/benchmarks.md still compile, and decide alike; and the routers of the examples.
test-bench:
	cd bench && $(GO) test $(TESTFLAGS) ./...
	cd examples/adapters && $(GO) test $(TESTFLAGS) ./...

# What one goroutine does alone shows the detector nothing, and these take it minutes.
ALONE := TestAMillionCallersLeaveNothing|TestNothingIsLeftOfWhatever|TestBytesAKey
test-race:
	$(if $(strip $(RACE)),$(GO) test -race -skip '^($(ALONE))$$' $(TESTFLAGS) $(RACE),@echo "no package to race yet")

lint: $(LINT) ## Check the code against .golangci.yaml
	$(LINT) run ./...
	cd bench && $(LINT) run ./...
	cd examples/adapters && $(LINT) run ./...

fmt: $(LINT) ## Format the code and its imports
	$(LINT) fmt ./...
	cd bench && $(LINT) fmt ./...
	cd examples/adapters && $(LINT) fmt ./...

# The packages whose tests write a schema or a page with -update, and fail without it when that is out of date.
DOCUMENTED := ./internal/rulespec ./internal/server ./internal/plots ./internal/admin

generate: $(BIN)/protoc-gen-go $(BUF) ## Write gen/ from proto/, and the schema and pages from their tables
	$(BUF) generate
	$(GO) test -run '^TestGeneratedFilesAreCurrent$$' -count 1 $(DOCUMENTED) -update

# Generated again beside the committed code, so that a check never edits the tree.
drift: $(BIN)/protoc-gen-go $(BUF) ## Check that what is generated is current, and lint proto/
	$(GO) test -run '^TestGeneratedFilesAreCurrent$$' $(DOCUMENTED)
	$(BUF) lint
	$(BUF) format --diff --exit-code
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT && \
	$(BUF) generate --output "$$fresh" && \
	if diff -ru gen "$$fresh/gen"; then echo "gen/ is up to date"; \
	else echo "gen/ differs from what proto/ generates: run 'make generate' and commit gen/" >&2; exit 1; fi

tidy-check: ## Check that go.mod names what the code imports
	$(GO) mod tidy -diff
	cd tools && $(GO) mod tidy -diff
	cd bench && $(GO) mod tidy -diff
	cd examples/adapters && $(GO) mod tidy -diff

bench: ## Measure beside other limiters, and write docs/benchmarks.md
	cd bench && $(GO) run . -tables "$(TABLES)"

soak: ## Have a million keys come and go for SOAK (3m), and fail if anything grows
	$(GO) test -run '^TestSoak$$' -count 1 -v -timeout 0 ./internal/faults -soak $(SOAK)

bench-packages: ## Run the benchmarks of all packages, each BENCHCOUNT times
	$(GO) test -run '^$$' -bench . -benchmem -count $(BENCHCOUNT) ./...

cross: ## Build for the other systems and processors
	@for target in $(CROSS); do \
	  echo "build $$target"; \
	  CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) build ./... || exit 1; \
	done

tools: $(LINT) $(BIN)/protoc-gen-go $(BUF) ## Build the linter and the generators into .bin/

clean: ## Remove what the tools built
	rm -rf $(BIN) tools/node_modules

# The tools are a module of their own: their hundreds of dependencies stay out of
# the SDK's graph, and their versions are pinned by tools/go.mod. The linter is
# apart from the generators because it alone takes minutes to build.
$(LINT): tools/go.mod tools/go.sum
	cd tools && GOBIN=$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

$(BIN)/protoc-gen-go: tools/go.mod tools/go.sum
	cd tools && GOBIN=$(BIN) $(GO) install \
	  google.golang.org/grpc/cmd/protoc-gen-go-grpc google.golang.org/protobuf/cmd/protoc-gen-go
	@touch $@

# The package's install script only checks the platform, so it need not run.
$(BUF): tools/package-lock.json
	cd tools && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@
